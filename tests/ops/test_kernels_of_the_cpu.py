"""Overloads that PyTorch's CPU has kernels for and that no public function of OpInfo reaches."""

import pytest
import torch
from compare import check

aten = torch.ops.aten
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def like(x):
    return torch.empty(0, device=x.device)


# ---- convolutions


@pytest.mark.parametrize(
    ("name", "x", "weight", "arguments"),
    [
        ("_slow_conv2d_forward", (2, 3, 6, 7), (4, 3, 2, 3), ([1, 2], [1, 0])),
        ("slow_conv3d_forward", (2, 3, 4, 6, 7), (4, 3, 2, 2, 3), ([1, 1, 2], [0, 1, 0])),
        ("slow_conv_dilated2d", (2, 3, 8, 9), (4, 3, 2, 3), ([1, 2], [1, 0], [2, 2])),
        ("slow_conv_dilated2d", (3, 8, 9), (4, 3, 2, 3), ([1, 2], [1, 0], [2, 2])),
        (
            "slow_conv_dilated3d",
            (2, 3, 5, 8, 9),
            (4, 3, 2, 2, 3),
            ([1, 1, 2], [0, 1, 0], [2, 2, 1]),
        ),
        ("slow_conv_transpose2d", (2, 3, 5, 6), (3, 4, 2, 3), ([2, 2], [1, 0], [1, 0], [1, 1])),
        (
            "slow_conv_transpose3d",
            (2, 3, 4, 5, 6),
            (3, 4, 2, 2, 3),
            ([2, 2, 1], [1, 0, 1], [1, 0, 0], [1, 1, 1]),
        ),
    ],
)
def test_convolutions(name, x, weight, arguments):
    torch.manual_seed(0)

    def function(x, weight, bias):
        return getattr(aten, name)(x, weight, list(weight.shape[2:]), bias, *arguments)

    for bias in (torch.randn(4), None):
        check(function, torch.randn(x), torch.randn(weight), bias, **CLOSE)


@pytest.mark.parametrize("mask", [(True, True, True), (True, False, False), (False, True, True)])
def test_convolution_backward(mask):
    torch.manual_seed(0)

    def function(grad, x, weight):
        results = aten._slow_conv2d_backward.output_mask(
            grad, x, weight, [2, 2], [1, 1], [0, 0], list(mask)
        )
        return [r for r in results if r is not None]

    check(
        function, torch.randn(2, 4, 5, 5), torch.randn(2, 3, 6, 6), torch.randn(4, 3, 2, 2), **CLOSE
    )


# ---- fractional max pooling


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 3, 9, 7), (3, 9, 7), (2, 3, 6, 7, 8), (2, 6, 5, 8)], ids=str)
def test_fractional_max_pool(shape, dtype):
    torch.manual_seed(0)
    n = 2 if shape in ((2, 3, 9, 7), (3, 9, 7)) else 3
    kernel, size = [2, 3, 2][:n], [4, 3, 5][:n]
    x = torch.randn(shape).to(dtype)
    samples = torch.rand(shape[0] if len(shape) == n + 2 else 1, shape[-n - 1], n).to(dtype)

    def forward(x, samples):
        return getattr(aten, f"fractional_max_pool{n}d")(x, kernel, size, samples)

    def backward(grad, x, indices):
        return getattr(aten, f"fractional_max_pool{n}d_backward")(grad, x, kernel, size, indices)

    check(forward, x, samples)
    if shape != (2, 6, 5, 8):  # whose third window does not fit: an error
        values, indices = forward(x, samples)
        check(backward, torch.randn_like(values), x, indices)


def test_fractional_max_pool_of_nan():
    x = torch.arange(16.0).view(1, 1, 4, 4)
    x[0, 0, 1, 1] = float("nan")
    for size in ([2, 2], [1, 1]):
        check(
            lambda x, r, s=size: aten.fractional_max_pool2d(x, [2, 2], s, r), x, torch.rand(1, 1, 2)
        )


def test_max_unpool_keeps_channels_last():
    x = torch.randn(1, 2, 4, 6).to(memory_format=torch.channels_last)
    values, indices = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    check(lambda v, i: torch.nn.functional.max_unpool2d(v, i, 2), values, indices)


# ---- forms that stand alone


def test_narrow_copy():
    x = torch.randn(3, 4)
    check(lambda x: torch.narrow_copy(x, 1, 1, 2), x.t())
    check(lambda x: torch.narrow_copy(x, 0, -2, 2), x)
    check(lambda x: torch.narrow_copy(x, 1, 1, 2, out=like(x)), x)
    check(lambda x: torch.narrow_copy(x, 1, 1, 2, out=like(x).double()), x)
    check(lambda x: torch.narrow_copy(x, 0, 2, 3), x)
    check(lambda x: torch.narrow_copy(x, 0, 0, 1), torch.tensor(1.0))


def test_pooling_out():
    check(lambda x: aten.adaptive_avg_pool2d.out(x, [2, 3], out=like(x)), torch.randn(1, 2, 5, 7))
    x = torch.randn(1, 2, 5, 7, 4)
    check(lambda x: aten.adaptive_avg_pool3d.out(x, [2, 3, 2], out=like(x)), x)
    check(
        lambda g, x: aten.adaptive_avg_pool3d_backward.grad_input(g, x, grad_input=like(x)),
        torch.randn(1, 2, 2, 3, 2),
        x,
    )


def test_batch_norm_out():
    x, mean, var = torch.randn(3, 4, 5), torch.zeros(4), torch.ones(4)

    def legit(x, mean, var):
        outs = {n: like(x) for n in ("out", "save_mean", "save_invstd")}
        return aten._native_batch_norm_legit.out(x, None, None, mean, var, True, 0.1, 1e-5, **outs)

    def update(x, mean, var):
        outs = {n: like(x) for n in ("out", "save_mean", "save_invstd")}
        outs["reserve"] = like(x).byte()
        return aten._batch_norm_with_update.out(x, None, None, mean, var, 0.1, 1e-5, **outs)

    check(legit, x, mean, var, **CLOSE)
    check(update, x, mean, var, **CLOSE)


def test_sums():
    check(lambda x: aten._add_relu(x, 2.0, 3.0), torch.randn(5))
    check(lambda x: aten._add_relu_(x, 2.0, 3.0), torch.randn(5))
    check(lambda x: aten._add_relu(x, 2, 3), torch.arange(-9, 9))
    check(torch._compute_linear_combination, torch.randn(3, 2, 4), torch.randn(5, 3), **CLOSE)


@pytest.mark.parametrize("value", [1, 0, [0.5], [1, 2]], ids=str)
def test_assertions(value):
    value = torch.tensor(value)
    check(torch._assert_async, value)
    check(lambda v: torch._assert_async(v, "what was wrong"), value)
    check(
        lambda v: aten._functional_assert_async.msg(
            v, "what was wrong", torch.ones(1, device=v.device)
        ),
        value,
    )


# ---- attention


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_for_cpu(is_causal):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 3, 5, 4)
    name = aten._scaled_dot_product_flash_attention_for_cpu
    check(lambda *a: name(*a, 0.0, is_causal), q, k, v, strides=False, **CLOSE)
    out, logsumexp = name(q, k, v, 0.0, is_causal)
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
    check(
        lambda *a: backward(*a, 0.0, is_causal),
        torch.randn_like(out),
        q,
        k,
        v,
        out,
        logsumexp,
        strides=False,
        **CLOSE,
    )


def test_query_key_value_of_one_projection():
    check(torch._transform_bias_rescale_qkv, torch.randn(2, 3, 24), torch.randn(24), 2)
