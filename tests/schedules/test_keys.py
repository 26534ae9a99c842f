"""Keys of programs: what is a run-time operand compiles once; what must be told apart is."""

import pytest
import torch
from torch.nn import functional as F

SHAPE = (7, 9)  # used by no other test, so that each begins with nothing compiled


def x(*shape, dtype=torch.float32):
    shape = shape or SHAPE
    return (torch.arange(torch.Size(shape).numel()) % 5).reshape(shape).to(dtype).to("tpu")


def compiles(calls):
    """Programs that the calls took: compiled, or loaded from the disk cache."""
    torch.tpu.reset_counters()
    for call in calls:
        call()
    torch.tpu.synchronize()
    counters = torch.tpu.counters()
    return counters["compiles"] + counters["disk_cache_hits"]


# For each: a function of the step number, which from the second call on compiles nothing.
CHANGING = {
    "mul_scalar": lambda i, a: a * (0.1 + i),
    "add_scalar": lambda i, a: a + i * 0.7,
    "int_scalar": lambda i, a: a + (i + 3),
    "add_alpha": lambda i, a: torch.add(a, a, alpha=1 + i),
    "add_scalar_": lambda i, a: a.add_(i),
    "rsub": lambda i, a: (i + 0.5) - a,
    "pow": lambda i, a: a ** (2.25 + i),
    "clamp": lambda i, a: a.clamp(-1.0 - i, 1.0 + i),
    "fill_": lambda i, a: a.fill_(i + 0.5),
    "full": lambda i, a: torch.full(SHAPE, i + 0.5, device="tpu"),
    "masked_fill": lambda i, a: a.masked_fill(a > 1, -i - 1.0),
    "where_scalar": lambda i, a: torch.where(a > i, a, 2.5 + i),
    "compare_scalar": lambda i, a: a < i + 0.5,
    "leaky_relu": lambda i, a: F.leaky_relu(a, 0.1 * (i + 1)),
    "elu": lambda i, a: F.elu(a, 1.5 + i),
    "lerp": lambda i, a: torch.lerp(a, a, 0.1 * (i + 1)),
    "addmm": lambda i, a: torch.addmm(a, x(7, 7), a, beta=0.5 + i, alpha=1.5 + i),
    "index": lambda i, a: a[i] + 1,
    "negative_index": lambda i, a: a[-1 - i] + 1,
    "column": lambda i, a: a[:, i] * 2,
    "slice": lambda i, a: a[i : i + 2] + 1,
    "write_row": lambda i, a: a[i].add_(1),
    "assign_row": lambda i, a: a.__setitem__(i, 3.0),
    "copy_to_row": lambda i, a: a[i].copy_(a[0]),
    "narrow": lambda i, a: a.narrow(1, i, 3).sum(),
    "tensor_index": lambda i, a: a[torch.tensor([i, 0], device="tpu")],
    "rand": lambda i, a: torch.rand(SHAPE, device="tpu"),
    "dropout": lambda i, a: F.dropout(a, 0.5),
    "seed": lambda i, a: (torch.manual_seed(i), torch.randn(SHAPE, device="tpu")),
    "normal_parameters": lambda i, a: a.normal_(i, i + 1.0),
    "uniform_parameters": lambda i, a: a.uniform_(-i, i + 1.0),
    "arange_start": lambda i, a: torch.arange(i, i + 5, device="tpu"),
    "linspace_ends": lambda i, a: torch.linspace(i, i + 3.5, 5, device="tpu"),
    "addcmul": lambda i, a: torch.addcmul(a, a, a, value=0.5 + i),
    "foreach_add": lambda i, a: torch._foreach_add([a, a], 0.5 + i),
    "foreach_mul_": lambda i, a: torch._foreach_mul_([a], 0.5 + i),
    "fresh_operands": lambda i, a: x() * x(),
}


@pytest.mark.parametrize("name", CHANGING)
def test_what_changes_compiles_once(name):
    step, a = CHANGING[name], x()
    # 0 and 1 may be programs of their own, as a first call may.
    for i in (0, 1):
        step(i, a)
    torch.tpu.reset_counters()
    taken = compiles(lambda i=i: step(i, a) for i in range(2, 6))
    assert taken == 0
    assert torch.tpu.counters()["cache_hits"] > 0


def test_optimizer_steps_compile_once():
    for make in (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD):
        for options in ({}, {"foreach": True}, {"fused": True}):
            p = torch.nn.Parameter(x())
            optimizer = make([p], lr=0.1, **options)

            def step(optimizer=optimizer, p=p):
                p.grad = x()
                optimizer.step()
                optimizer.param_groups[0]["lr"] *= 0.9

            step(), step()
            assert compiles([step] * 4) == 0, (make, options)


# Pairs that must not share a program: the second call, after the first, gives the CPU's result.
def same(call):
    got, want = call("tpu"), call("cpu")
    torch.testing.assert_close(got.cpu(), want, rtol=1e-5, atol=1e-5)
    assert got.dtype == want.dtype
    assert got.stride() == want.stride()


def t(d, *shape, dtype=torch.float32):
    return (torch.arange(torch.Size(shape).numel()) % 5).reshape(shape).to(dtype).to(d)


DISTINCT = {
    "shape": [lambda d: t(d, 5, 3) + 1, lambda d: t(d, 3, 5) + 1],
    "rank": [lambda d: t(d, 15).sum(0), lambda d: t(d, 1, 15).sum(0)],
    "broadcast": [
        lambda d: t(d, 5, 5) + t(d, 5, 1),
        lambda d: t(d, 5, 5) + t(d, 1, 5),
        lambda d: t(d, 5, 5) + t(d, 5),
    ],
    "strides": [lambda d: t(d, 5, 5).exp(), lambda d: t(d, 5, 5).t().exp()],
    "strides_of_second": [
        lambda d: t(d, 5, 5) - t(d, 5, 5),
        lambda d: t(d, 5, 5) - t(d, 5, 5).t(),
        lambda d: t(d, 5, 5).t() - t(d, 5, 5),
    ],
    "step": [lambda d: t(d, 12)[:6] * 2, lambda d: t(d, 12)[::2] * 2],
    "base_shape": [lambda d: t(d, 12)[:4] + 1, lambda d: t(d, 16)[:4] + 1],
    "expanded": [lambda d: t(d, 3, 3) * 3, lambda d: t(d, 3, 1).expand(3, 3) * 3],
    "channels_last": [
        lambda d: t(d, 2, 3, 4, 5).relu(),
        lambda d: t(d, 2, 3, 4, 5).to(memory_format=torch.channels_last).relu(),
    ],
    "dtype": [
        lambda d, k=k: t(d, 5, dtype=k) // 2
        for k in (torch.float32, torch.int32, torch.int64, torch.uint8, torch.float64)
    ],
    "dtype_of_second": [
        lambda d, k=k: t(d, 5, dtype=torch.int32) * t(d, 5, dtype=k)
        for k in (torch.float32, torch.int32, torch.int64, torch.bool)
    ],
    "scalar_kind": [lambda d, s=s: t(d, 5, dtype=torch.int32) * s for s in (2, 2.0, True, 2 + 0j)],
    "wrapped_number": [
        lambda d: t(d, 5, dtype=torch.float16) * torch.tensor(2.0, device=d),
        lambda d: t(d, 5, dtype=torch.float16) * torch.tensor([2.0], device=d),
    ],
    "dim": [lambda d, k=k: t(d, 4, 4).sum(k) for k in (0, 1, (0, 1), None)],
    "keepdim": [lambda d, k=k: t(d, 4, 4).sum(1, keepdim=k) for k in (False, True)],
    "result_dtype": [
        lambda d, k=k: t(d, 4).sum(dtype=k) for k in (torch.float32, torch.float64, torch.int64)
    ],
    "correction": [lambda d, k=k: t(d, 9).var(correction=k) for k in (0, 1, 2)],
    "descending": [lambda d, k=k: t(d, 9).sort(descending=k).values for k in (False, True)],
    "k": [lambda d, k=k: t(d, 9).topk(k).values for k in (1, 2, 3)],
    "mode": [
        lambda d, k=k: torch.div(t(d, 9), 2, rounding_mode=k) for k in (None, "floor", "trunc")
    ],
    "approximate": [lambda d, k=k: F.gelu(t(d, 9), approximate=k) for k in ("none", "tanh")],
    "reduction": [
        lambda d, k=k: F.mse_loss(t(d, 9), t(d, 9) + 2, reduction=k)
        for k in ("none", "mean", "sum")
    ],
    "stride_of_convolution": [
        lambda d, s=s: F.conv2d(t(d, 1, 1, 6, 6), t(d, 1, 1, 2, 2), stride=s) for s in (1, 2)
    ],
    "padding": [
        lambda d, s=s: F.conv2d(t(d, 1, 1, 6, 6), t(d, 1, 1, 3, 3), padding=s) for s in (0, 1)
    ],
    "bias_or_not": [
        lambda d: F.linear(t(d, 2, 3), t(d, 4, 3)),
        lambda d: F.linear(t(d, 2, 3), t(d, 4, 3), t(d, 4)),
    ],
    "none_bounds": [
        lambda d: t(d, 9).clamp(1),
        lambda d: t(d, 9).clamp(max=1),
        lambda d: t(d, 9).clamp(1, 3),
    ],
    "list_length": [lambda d, n=n: torch.cat([t(d, 3)] * n) for n in (1, 2, 3)],
    "list_order": [
        lambda d: torch.cat([t(d, 3), t(d, 4)]),
        lambda d: torch.cat([t(d, 4), t(d, 3)]),
    ],
    "index_place": [
        lambda d: t(d, 4, 4)[torch.tensor([1, 2], device=d)],
        lambda d: t(d, 4, 4)[:, torch.tensor([1, 2], device=d)],
    ],
    "index_dtype": [
        lambda d, k=k: t(d, 4, 4)[torch.tensor([1, 0], device=d).to(k)]
        for k in (torch.int64, torch.int32, torch.uint8)
        if k != torch.uint8
    ],
    "same_tensor_twice": [
        lambda d: (lambda a: a * a)(t(d, 6)),
        lambda d: t(d, 6) * (t(d, 6) + 1),
    ],
    "in_place_alias": [
        lambda d: (lambda a: a.add_(a))(t(d, 6)),
        lambda d: t(d, 6).add_(t(d, 6) + 1),
    ],
    "triangle": [lambda d, k=k: t(d, 4, 4).tril(k) for k in (-1, 0, 1)],
    "shift": [lambda d, k=k: t(d, 9).roll(k) for k in (1, 2)],
    "conjugate": [
        lambda d: t(d, 4, dtype=torch.complex64) * 1j,
        lambda d: (t(d, 4, dtype=torch.complex64) * 1j).conj() * 1j,
    ],
    "memory_format": [
        lambda d: t(d, 2, 3, 4, 5).clone(),
        lambda d: t(d, 2, 3, 4, 5).clone(memory_format=torch.channels_last),
    ],
    "pow_exponent": [lambda d, e=e: t(d, 9) ** e for e in (0, 1, 2, 3, 0.5, -1, 2.5)],
    "nan_and_zero_scalars": [
        lambda d, s=s: t(d, 5) * s for s in (0.0, -0.0, float("nan"), float("inf"), 1e-45)
    ],
}


@pytest.mark.parametrize("name", DISTINCT)
@pytest.mark.filterwarnings("ignore")
def test_what_differs_shares_no_program(name):
    for call in DISTINCT[name] + DISTINCT[name][::-1]:
        if name == "nan_and_zero_scalars":
            got, want = call("tpu").cpu(), call("cpu")
            assert torch.equal(got.view(torch.int32), want.view(torch.int32)) or (
                torch.allclose(got, want, equal_nan=True)
            )
        else:
            same(call)


def test_hits_are_counted():
    a = x()
    _ = a + a
    torch.tpu.reset_counters()
    for _ in range(10):
        _ = a + a
    counters = torch.tpu.counters()
    assert counters["cache_hits"] == 10
    assert counters["executions"] == 10
    assert counters["compiles"] == 0


def test_precision_is_in_the_key():
    a = x(8, 8)
    before = torch.get_float32_matmul_precision()
    try:
        for precision in ("highest", "high", "medium"):
            torch.set_float32_matmul_precision(precision)
            torch.testing.assert_close((a @ a).cpu(), a.cpu() @ a.cpu(), rtol=1e-2, atol=1e-2)
    finally:
        torch.set_float32_matmul_precision(before)
