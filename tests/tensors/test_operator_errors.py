"""Errors of operators: their type, their text, and that work goes on after them."""

import os
import re
import subprocess
import sys
import textwrap

import pytest
import torch
from torch.nn import functional as F


def on(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device="tpu")


def index(*values):
    return torch.tensor(values, device="tpu")


@pytest.fixture(autouse=True)
def work_goes_on():
    yield
    torch.tpu.synchronize()
    assert (on(3) + 1).tolist() == [2, 2, 2]


MIXED = {
    "add": lambda: on(2) + torch.ones(2),
    "mm": lambda: on(2, 2) @ torch.ones(2, 2),
    "cat": lambda: torch.cat([on(2), torch.ones(2)]),
    "where": lambda: torch.where(on(2) > 0, on(2), torch.ones(2)),
    "linear": lambda: F.linear(on(2, 3), torch.ones(4, 3)),
    "add_": lambda: on(2).add_(torch.ones(2)),
    "out": lambda: torch.add(on(2), 1, out=torch.empty(2)),
    "cpu_with_tpu": lambda: torch.ones(2) * on(2),
    "embedding": lambda: F.embedding(torch.tensor([0]), on(3, 2)),
    "conv2d": lambda: F.conv2d(on(1, 1, 3, 3), torch.ones(1, 1, 2, 2)),
    "lerp": lambda: torch.lerp(on(2), on(2), torch.ones(2)),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_devices(name):
    with pytest.raises(RuntimeError, match=r"same device|tensor.* on .*(cpu|tpu)|device type"):
        MIXED[name]()


def test_cpu_scalar_tensors_mix():
    """A 0-d CPU tensor is a scalar, as on every device."""
    assert (on(2) + torch.tensor(2.0)).tolist() == [3, 3]
    assert (torch.tensor(2.0) * on(2)).tolist() == [2, 2]
    assert on(2).add_(torch.tensor(1)).tolist() == [2, 2]
    assert torch._foreach_mul([on(2)], [torch.tensor(3.0)])[0].tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="device"):
        torch.ones(2) + torch.tensor(1.0, device="tpu").expand(2)


# The text of these errors is PyTorch's own: whatever the CPU says, the device says.
LIKE_CPU = {
    "mm_dtype": lambda d: torch.ones(2, 2, device=d) @ torch.ones(2, 2, device=d).double(),
    "int_add_float": lambda d: torch.ones(2, dtype=torch.int32, device=d).add_(0.5),
    "out_dtype": lambda d: torch.add(
        torch.ones(2, device=d), 1, out=torch.empty(2, dtype=torch.int32, device=d)
    ),
    "broadcast": lambda d: torch.ones(2, device=d) + torch.ones(3, device=d),
    "mm_shape": lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
    "bmm_shape": lambda d: torch.bmm(torch.ones(2, 3, 4, device=d), torch.ones(3, 4, 5, device=d)),
    "cat_shape": lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)]),
    "cat_empty": lambda d: torch.cat([]),
    "view": lambda d: torch.ones(2, 3, device=d).t().view(6),
    "reshape": lambda d: torch.ones(2, 3, device=d).reshape(4),
    "dim": lambda d: torch.ones(2, 3, device=d).sum(2),
    "max_empty": lambda d: torch.ones(0, device=d).max(),
    "argmax_empty": lambda d: torch.ones(0, device=d).argmax(),
    "in_place_broadcast": lambda d: torch.ones(2, device=d).add_(torch.ones(3, 2, device=d)),
    "not_bool": lambda d: ~torch.ones(2, device=d),
    "conv_channels": lambda d: F.conv2d(
        torch.ones(1, 3, 5, 5, device=d), torch.ones(1, 2, 3, 3, device=d)
    ),
    "linear": lambda d: F.linear(torch.ones(2, 3, device=d), torch.ones(4, 5, device=d)),
    "layer_norm": lambda d: F.layer_norm(torch.ones(2, 3, device=d), (4,)),
    "select": lambda d: torch.ones(2, device=d)[5],
    "narrow": lambda d: torch.ones(2, device=d).narrow(0, 1, 3),
    "expand": lambda d: torch.ones(2, device=d).expand(3),
    "index_dtype": lambda d: torch.ones(3, device=d)[torch.tensor([0.5], device=d)],
    "mask_shape": lambda d: torch.ones(3, device=d)[torch.ones(2, dtype=torch.bool, device=d)],
    "gather_dtype": lambda d: torch.ones(3, device=d).gather(0, torch.ones(3, device=d)),
    "gather_shape": lambda d: torch.ones(2, 2, device=d).gather(
        0, torch.zeros(3, 3, device=d).long()
    ),
    "masked_fill_dtype": lambda d: torch.ones(2, device=d).masked_fill(torch.ones(2, device=d), 1),
    "index_put_dtype": lambda d: torch.ones(2, device=d).index_put_(
        (torch.tensor([0], device=d),), torch.ones(1, device=d).double()
    ),
    "cross_entropy": lambda d: F.cross_entropy(
        torch.ones(2, 3, device=d), torch.zeros(3, dtype=torch.long, device=d)
    ),
    "softmax_int": lambda d: torch.softmax(torch.ones(3, dtype=torch.long, device=d), 0),
    "mean_int": lambda d: torch.ones(3, dtype=torch.long, device=d).mean(),
    "cholesky_shape": lambda d: torch.linalg.cholesky(torch.ones(2, 3, device=d)),
    "topk": lambda d: torch.ones(3, device=d).topk(4),
    "dot": lambda d: torch.dot(torch.ones(2, device=d), torch.ones(3, device=d)),
    "neg_bool": lambda d: -torch.ones(2, dtype=torch.bool, device=d),
    "sub_bool": lambda d: (
        torch.ones(2, dtype=torch.bool, device=d) - torch.ones(2, dtype=torch.bool, device=d)
    ),
    "leaf": lambda d: torch.ones(2, device=d, requires_grad=True).add_(1),
    "bad_pad": lambda d: F.max_pool2d(torch.ones(1, 1, 4, 4, device=d), 2, padding=3),
    "repeat": lambda d: torch.ones(2, 2, device=d).repeat(2),
    "shift_float": lambda d: torch.ones(2, device=d) << 1,
    "beta": lambda d: F.smooth_l1_loss(torch.ones(2, device=d), torch.ones(2, device=d), beta=-1.0),
    "complex_parts": lambda d: torch.complex(
        torch.ones(2, device=d), torch.ones(2, device=d).double()
    ),
    "negative_power": lambda d: torch.ones(2, dtype=torch.long, device=d).pow_(-2),
    "fill_expanded": lambda d: torch.ones(1, device=d).expand(3).fill_(torch.tensor(1.0, device=d)),
    "add_expanded": lambda d: torch.ones(1, device=d).expand(3).add_(1),
}


@pytest.mark.parametrize("name", LIKE_CPU)
def test_error_is_that_of_the_cpu(name):
    with pytest.raises(Exception) as host:
        LIKE_CPU[name]("cpu")
    with pytest.raises(host.type) as device:
        LIKE_CPU[name]("tpu")
    assert device.type is host.type
    assert str(device.value) == str(host.value)


def test_one_value_may_go_to_an_expanded_tensor():
    x = on(1).expand(3)
    assert x.fill_(2).tolist() == [2, 2, 2]
    assert x.zero_().tolist() == [0, 0, 0]


def test_error_of_a_huge_call_is_told_at_once():
    """Calls that are refused are tried on the CPU, for its words; but not those of any size."""
    with pytest.raises(RuntimeError, match=r"2.*1099511627776.*3.*1"):
        on(1).expand(2, 1 << 40) @ on(3, 1)


HUGE = {
    "ones": lambda: torch.ones(1024**5, device="tpu"),
    "expand": lambda: on(1).expand(1024**5).clone(),
}


@pytest.mark.parametrize("name", HUGE)
def test_out_of_memory(name):
    with pytest.raises(torch.OutOfMemoryError) as error:
        HUGE[name]()
    assert re.search(r"\d+(\.\d+)? ?[KMGTP]iB|1125899906842624|4503599627370496", str(error.value))


OUT_OF_RANGE = {
    "index": (lambda: on(3)[index(0, 7)], "index", 7),
    "index_negative": (lambda: on(3)[index(0, -4)], "index", -4),
    "index_select": (lambda: on(3).index_select(0, index(5)), "index_select", 5),
    "gather": (lambda: on(3).gather(0, index(3)), "gather", 3),
    "scatter": (lambda: on(3).scatter(0, index(4), on(1)), "scatter", 4),
    "scatter_add_": (lambda: on(3).scatter_add_(0, index(9), on(1)), "scatter_add_", 9),
    "index_put_": (lambda: on(3).index_put_((index(6),), on(1)), "index_put_", 6),
    "index_add": (lambda: on(3).index_add(0, index(8), on(1)), "index_add", 8),
    "index_copy": (lambda: on(3).index_copy(0, index(8), on(1)), "index_copy", 8),
    "index_fill": (lambda: on(3).index_fill(0, index(8), 1.0), "index_fill", 8),
    "embedding": (lambda: F.embedding(index(11), on(3, 2)), "embedding", 11),
    "embedding_bag": (
        lambda: F.embedding_bag(index(5, 11), on(3, 2), index(0)),
        "embedding_bag",
        11,
    ),
    "take": (lambda: on(3).take(index(12)), "take", 12),
    "nll_loss": (lambda: F.nll_loss(on(1, 3), index(5)), "nll_loss", 5),
    "cross_entropy": (lambda: F.cross_entropy(on(1, 3), index(5)), "nll_loss", 5),
    "nll_loss2d": (lambda: F.nll_loss(on(1, 3, 1, 1), index(5).view(1, 1, 1)), "nll_loss2d", 5),
    "multi_margin_loss": (lambda: F.multi_margin_loss(on(1, 3), index(5)), "multi_margin_loss", 5),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_index_out_of_range_is_told_at_the_next_read(name):
    call, operator, value = OUT_OF_RANGE[name]
    call()
    with pytest.raises(IndexError) as error:
        (on(2) + 1).cpu()
    assert str(error.value).startswith(f"{operator}: index {value} is out of range")
    assert (on(2) + 1).tolist() == [2, 2]


def test_error_is_told_once_and_the_first_one():
    on(3)[index(7)]
    on(3)[index(8)]
    with pytest.raises(IndexError, match="7"):
        torch.tpu.synchronize()
    torch.tpu.synchronize()


def test_valid_indices_set_no_error():
    x = on(3)
    assert x[index(-3, 2)].tolist() == [1, 1]
    assert F.nll_loss(on(2, 3), index(-100, 1)).item() == -1
    x[index(0, 1)] = 5
    x.index_put_((index(-1),), on(1), accumulate=True)
    assert x.tolist() == [5, 5, 2]


DEBUG = """
import torch
from torch.nn import functional as F
def on(*shape): return torch.ones(shape, device="tpu")
def index(*values): return torch.tensor(values, device="tpu")
calls = [
    lambda: on(3)[index(0, 7)],
    lambda: on(3).index_select(0, index(7)),
    lambda: on(3).gather(0, index(7)),
    lambda: on(3).index_put_((index(7),), on(1)),
    lambda: F.embedding(index(7), on(3, 2)),
    lambda: F.nll_loss(on(1, 3), index(7)),
]
for number, call in enumerate(calls):
    try:
        call()
    except IndexError as error:
        assert "7" in str(error), error
    else:
        raise AssertionError(f"call {number} raised nothing")
    assert (on(2) + 1).tolist() == [2, 2]
"""


def test_index_out_of_range_in_debug_mode():
    """With TORCH_TPU_LAUNCH_BLOCKING=1 the call itself raises."""
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(DEBUG)],
        env={**os.environ, "TORCH_TPU_LAUNCH_BLOCKING": "1"},
        check=True,
        timeout=300,
    )
