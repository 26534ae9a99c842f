"""The further forms of opinfo_forms.py, of operators in which each has found something; the sweep
tries them with all operators, dtypes and samples."""

import pytest
import torch
from error_runner import OPS
from opinfo_forms import CHECKS
from opinfo_runner import Case, Choice, read_expected, reasons_of

EXPECTED = read_expected(sweep=True)

#: By form, and by what was wrong.
OPERATORS = {
    # A resized out= has the strides that PyTorch gives it; some kernels do not warn.
    "out_size": """add cat geqrf cholesky_inverse lu_solve ormqr svd linalg.eig linalg.eigh
        linalg.householder_product linalg.solve_triangular fft.ifft multinomial bernoulli""",
    # Each CPU kernel has its own rule for an out= of another dtype.
    "out_dtype": """add conj_physical cross cumsum cumprod cummax frexp isin kthvalue lu_unpack
        lu_solve linalg.ldl_solve heaviside softmax _native_batch_norm_legit
        nn.functional.avg_pool3d nn.functional.softshrink mode neg round nan_to_num
        lerp index_copy sort take histc bucketize bernoulli nonzero""",
    "out_strided": "add matmul sort index_select cumsum linalg.inv",
    # Some refuse an out= that is an operand.
    "out_overlap": "add cross index_select linalg.lu_solve linalg.inv arange",
    "noncontiguous": "add matmul sort index_select cumsum nn.functional.conv2d gather",
    "channels_last": """nn.functional.pad.reflect nn.functional.pad.replicate
        nn.functional.pixel_shuffle nn.functional.pixel_unshuffle nn.functional.channel_shuffle
        nn.functional.max_unpool2d nn.functional.conv3d""",
    # What meta kernels do not check, or refuse; indices have nothing to name.
    "zero_size": """add sum matmul max.reduction_with_dim median native_batch_norm gather
        nn.functional.adaptive_avg_pool2d nn.functional.interpolate.nearest scatter_reduce.sum
        nn.functional.interpolate.bilinear nn.functional.scaled_dot_product_attention""",
}
DTYPES = {
    "zero_size": {"median": torch.int8},
    "channels_last": {"nn.functional.conv3d": torch.int64},
}


@pytest.mark.parametrize(
    ("form", "name"), [(form, name) for form, names in OPERATORS.items() for name in names.split()]
)
def test_form(form, name):
    dtype = DTYPES.get(form, {}).get(name, torch.float32)
    case = Case(OPS[name], dtype, Choice(samples=2, forms=(), more=((form, CHECKS[form]),)))
    failures = case.run()
    expected = reasons_of(EXPECTED, name, str(dtype).removeprefix("torch."))
    assert form in case.ran, "the form has no meaning for these samples"
    assert not {f: text for f, text in failures.items() if f not in expected}


def test_convolution_of_nothing():
    for shape in ((1, 3, 0), (1, 3, 0, 4), (1, 3, 0, 4, 4)):
        rank = len(shape) - 2
        weight = torch.ones(2, 3, *[1] * rank, device="tpu")
        convolution = (torch.conv1d, torch.conv2d, torch.conv3d)[rank - 1]
        with pytest.raises(RuntimeError, match="Only zero batch or zero channel inputs"):
            convolution(torch.ones(shape, device="tpu"), weight, padding=1)


def test_attention_without_heads():
    query = torch.ones(2, 0, 3, 4, device="tpu", requires_grad=True)
    key = torch.ones(2, 0, 5, 4, device="tpu")
    result = torch.nn.functional.scaled_dot_product_attention(query, key, key)
    assert result.shape == (2, 0, 3, 4)
    result.sum().backward()
    assert query.grad.shape == query.shape
