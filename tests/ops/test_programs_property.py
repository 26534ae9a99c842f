"""Random programs of pointwise, reducing and indexing operators, over random dtypes and strides:
the device must do what the CPU does. Compared are values, dtypes, shapes, strides, what is written,
what is shared, errors.

TORCH_TPU_TEST_PROGRAMS=N runs N programs instead of 100."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from compare import copied
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils._pytree import tree_leaves

PROGRAMS = int(os.environ.get("TORCH_TPU_TEST_PROGRAMS", "100"))
SHAPES = [(2, 3), (3, 2), (2, 1, 3), (3,), (), (0, 3), (2, 3, 2, 2)]
DTYPES = [
    torch.float32,
    torch.int64,
    torch.bool,
    torch.bfloat16,
    torch.int32,
    torch.uint8,
    torch.float16,
    torch.float64,
    torch.complex64,
    torch.int8,
]
SPECIAL = [float("nan"), float("inf"), -float("inf"), -0.0]


def start(shape: int, dtype: int, layout: int, fill: int) -> torch.Tensor:
    """Small whole numbers, with which arithmetic is exact, now and then a NaN or an infinity; in a
    contiguous tensor, a transposed one, every second element of one, or channels_last."""
    sizes, kind = SHAPES[shape % len(SHAPES)], DTYPES[dtype % len(DTYPES)]
    rank = len(sizes)
    count = int(torch.Size(sizes).numel())
    values = ((torch.arange(count) * 5 + fill) % 9 - 3).to(kind).reshape(sizes)
    if fill > 5 and kind.is_floating_point and count:
        values.view(-1)[fill % count] = SPECIAL[fill % len(SPECIAL)]
    if layout == 1 and rank:
        return values.permute(*range(rank)[::-1]).contiguous().permute(*range(rank)[::-1])
    if layout == 2 and rank:
        base = torch.zeros((*sizes[:-1], 2 * sizes[-1] + 1), dtype=kind)
        base[..., 1::2] = values
        return base[..., 1::2]
    if layout == 3 and rank == 4:
        return values.contiguous(memory_format=torch.channels_last)
    return values


def dim_of(x: torch.Tensor, a: int) -> int:
    return a % max(x.dim(), 1) - (a % 2 and x.dim())


def positions(x: torch.Tensor, a: int, b: int) -> torch.Tensor:
    """Indices into dimension dim_of(x, a)."""
    size = x.shape[dim_of(x, a)] if x.dim() else 1
    if size == 0:
        return torch.empty(0, dtype=torch.int64, device=x.device)
    return torch.tensor([b % size, 0, size - 1], device=x.device)


def along(x: torch.Tensor, a: int, b: int) -> torch.Tensor:
    """Indices of the shape of x into dimension dim_of(x, a)."""
    size = max(x.shape[dim_of(x, a)] if x.dim() else 1, 1)
    return (torch.arange(x.numel(), device=x.device).reshape(x.shape) + b) % size


def scatter_add(x: torch.Tensor, y: torch.Tensor, a: int, b: int) -> torch.Tensor:
    return x.scatter_add(dim_of(x, a), along(x, a, b), x)


Step = Callable[[torch.Tensor, torch.Tensor, int, int], Any]

#: Results are exact, and go on.
EXACT: dict[str, Step] = {
    "add": lambda x, y, a, b: torch.add(x, y, alpha=a),
    "sub": lambda x, y, a, b: x - y,
    "mul": lambda x, y, a, b: x * y,
    "add_number": lambda x, y, a, b: x + (a - 1.5 if b == 0 else a),
    "maximum": lambda x, y, a, b: torch.maximum(x, y),
    "minimum": lambda x, y, a, b: torch.minimum(x, y),
    "where": lambda x, y, a, b: torch.where(x == a, x, y),
    "eq": lambda x, y, a, b: x == y,
    "lt": lambda x, y, a, b: x < y,
    "neg": lambda x, y, a, b: -x,
    "abs": lambda x, y, a, b: x.abs(),
    "sign": lambda x, y, a, b: x.sign(),
    "square": lambda x, y, a, b: x**2,
    "clamp": lambda x, y, a, b: x.clamp(a - 2, a + b),
    "relu": lambda x, y, a, b: x.relu(),
    "logical_not": lambda x, y, a, b: x.logical_not(),
    "and": lambda x, y, a, b: x & y,
    "xor": lambda x, y, a, b: x ^ y,
    "isnan": lambda x, y, a, b: x.isnan(),
    "to": lambda x, y, a, b: x.nan_to_num(1, 2, 3).to(DTYPES[(a + 4 * b) % len(DTYPES)]),
    "sum": lambda x, y, a, b: x.sum(dim_of(x, a), keepdim=bool(b % 2)),
    "sum_all": lambda x, y, a, b: x.sum(),
    "amax": lambda x, y, a, b: x.amax(dim_of(x, a), keepdim=bool(b % 2)),
    "min_of_dim": lambda x, y, a, b: x.min(dim_of(x, a)).values,
    "all": lambda x, y, a, b: x.all(dim_of(x, a)),
    "any": lambda x, y, a, b: x.any(),
    "count_nonzero": lambda x, y, a, b: x.count_nonzero(dim_of(x, a)),
    "cumsum": lambda x, y, a, b: x.cumsum(dim_of(x, a)),
    "cummax": lambda x, y, a, b: x.cummax(dim_of(x, a)).values,
    "sort": lambda x, y, a, b: x.sort(dim_of(x, a), descending=bool(b % 2), stable=True),
    "index_select": lambda x, y, a, b: x.index_select(dim_of(x, a), positions(x, a, b)),
    "gather": lambda x, y, a, b: x.gather(dim_of(x, a), along(x, a, b)),
    "index": lambda x, y, a, b: x[positions(x, 0, b)],
    "index_two": lambda x, y, a, b: x[..., positions(x, x.dim() - 1, b), None],
    "mask": lambda x, y, a, b: x[x == a],
    "take": lambda x, y, a, b: x.take(along(x.reshape(-1), 0, b)),
    "masked_fill": lambda x, y, a, b: x.masked_fill(x == a, b),
    "scatter": lambda x, y, a, b: x.scatter(dim_of(x, a), along(x, a, b) * 0, b),
    "scatter_add": scatter_add,
    "index_add": lambda x, y, a, b: x.index_add(
        dim_of(x, a), positions(x, a, b), x.index_select(dim_of(x, a), positions(x, a, b))
    ),
    "flip": lambda x, y, a, b: x.flip(dim_of(x, a)),
    "roll": lambda x, y, a, b: x.roll(b, dim_of(x, a)),
    "tril": lambda x, y, a, b: x.tril(b - 1),
    "cat": lambda x, y, a, b: torch.cat([x, y, x], dim_of(x, a)),
    "stack": lambda x, y, a, b: torch.stack([x, x], dim_of(x, a)),
    "repeat": lambda x, y, a, b: x.repeat(*[1 + b % 2] * x.dim(), 2),
    "nonzero": lambda x, y, a, b: x.nonzero().contiguous(),  # strides are free
    "clone": lambda x, y, a, b: x.clone(),
    "contiguous": lambda x, y, a, b: x.contiguous(),
    "transpose": lambda x, y, a, b: x.transpose(dim_of(x, a), dim_of(x, b)),
    "slice": lambda x, y, a, b: x[a % 2 :: 1 + b % 2],
    "select": lambda x, y, a, b: x.select(dim_of(x, a), b - 1),
    "expand": lambda x, y, a, b: x.expand(2, *x.shape),
    "unsqueeze": lambda x, y, a, b: x.unsqueeze(a % (x.dim() + 1)),
    "flatten": lambda x, y, a, b: x.reshape(-1),
}

#: Results are rounded: they are compared, and not used again, so that roundings do not add up.
ROUNDED: dict[str, Step] = {
    "div": lambda x, y, a, b: x / (y.abs() + 1),
    "exp": lambda x, y, a, b: x.exp(),
    "sqrt": lambda x, y, a, b: x.sqrt(),
    "sigmoid": lambda x, y, a, b: x.sigmoid(),
    "tanh": lambda x, y, a, b: x.tanh(),
    "mean": lambda x, y, a, b: x.mean(dim_of(x, a)),
    "var": lambda x, y, a, b: x.var(dim_of(x, a), correction=b % 2),
    "softmax": lambda x, y, a, b: x.softmax(dim_of(x, a)),
    "norm": lambda x, y, a, b: torch.linalg.vector_norm(x, 1 + b, dim_of(x, a)),
    "prod": lambda x, y, a, b: x.prod(dim_of(x, a)),
    "lerp": lambda x, y, a, b: x.lerp(y, 0.25 * b),
    "logsumexp": lambda x, y, a, b: x.logsumexp(dim_of(x, a)),
}

#: What is written to x is seen by all that share its memory.
WRITES: dict[str, Step] = {
    "add_": lambda x, y, a, b: x.add_(y, alpha=a),
    "mul_": lambda x, y, a, b: x.mul_(b),
    "copy_": lambda x, y, a, b: x.copy_(y),
    "fill_": lambda x, y, a, b: x.fill_(a),
    "add_out": lambda x, y, a, b: torch.add(x, b, out=x),
    "set_slice": lambda x, y, a, b: x.__setitem__(slice(a % 2, None, 1 + b % 2), b),
    "set_positions": lambda x, y, a, b: x.__setitem__(positions(x, 0, b), a),
    "set_mask": lambda x, y, a, b: x.__setitem__(x == a, b),
    "index_fill_": lambda x, y, a, b: x.index_fill_(dim_of(x, a), positions(x, a, b), b),
    "masked_fill_": lambda x, y, a, b: x.masked_fill_(x == a, b),
    "relu_": lambda x, y, a, b: x.relu_(),
    # The CPU sums bools only where there are none.
    "cumsum_": lambda x, y, a, b: (x if x.dtype != torch.bool else x.byte()).cumsum_(dim_of(x, a)),
}

STEPS = {**EXACT, **ROUNDED, **WRITES}
#: Larger numbers are not exact in all dtypes; and so that results stay small.
LARGEST, MOST = 128, 200


def attempt(step: Step, x: torch.Tensor, y: torch.Tensor, a: int, b: int) -> Any:
    try:
        return step(x, y, a, b), None
    except Exception as error:
        return None, error


def is_plain(x: torch.Tensor) -> bool:
    """Whether the tensor's numbers stay exact in the steps that follow."""
    if x.numel() > MOST or x.dim() > 5:
        return False
    if not (x.is_floating_point() or x.is_complex()):
        return True
    numbers = torch.view_as_real(x) if x.is_complex() else x
    return not bool((numbers.isfinite() & (numbers.abs() > LARGEST)).any())


def overlaps_itself(x: torch.Tensor) -> bool:
    return any(stride == 0 and n > 1 for stride, n in zip(x.stride(), x.shape, strict=True))


def same(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got.cpu(), want, equal_nan=True, check_stride=False)
    assert got.device.type == "tpu"
    sized = [i for i, n in enumerate(want.shape) if n > 1 and want.numel()]
    assert [got.stride(i) for i in sized] == [want.stride(i) for i in sized]


def memory(tensors: list[torch.Tensor]) -> list[tuple[int, int]]:
    """For each tensor the first of those in its storage, and its offset there."""
    storages = [x.untyped_storage()._cdata for x in tensors]
    return [(storages.index(s), x.storage_offset()) for s, x in zip(storages, tensors, strict=True)]


def run_program(starts: list[tuple], steps: list[tuple]) -> None:
    host = [start(*given) for given in starts]
    there = [copied(x, "tpu") for x in host]
    for name, i, j, a, b in steps:
        x, y = host[i % len(host)], host[j % len(host)]
        if name in WRITES and (overlaps_itself(x) or not is_plain(x)):
            continue  # a write to memory of several elements has no one outcome
        want, error = attempt(STEPS[name], x, y, a, b)
        got, raised = attempt(STEPS[name], there[i % len(host)], there[j % len(host)], a, b)
        if isinstance(error, NotImplementedError) or "ComplexHalf" in str(raised):
            continue  # a dtype that the CPU's kernel, or the device, does not have
        assert (type(raised), name) == (type(error), name), (error, raised)
        if error is not None or name in WRITES:
            continue
        for w, g in zip(tree_leaves(want), tree_leaves(got), strict=True):
            same(g, w)
            if name in EXACT and is_plain(w):
                host.append(w)
                there.append(g)
    for g, w in zip(there, host, strict=True):
        same(g, w)
    assert memory(there) == memory(host)


@pytest.mark.parametrize(
    ("starts", "step"),
    [
        ([(0, 0, 0, 0), (0, 2, 0, 0)], ("sub", 0, 1, 0, 0)),  # refused for the bools
        ([(0, 2, 0, 0), (0, 0, 0, 0)], ("relu_", 0, 1, 0, 0)),
        ([(4, 8, 0, 0), (0, 0, 0, 0)], ("min_of_dim", 0, 0, 0, 0)),  # one complex number
        ([(4, 8, 0, 0), (0, 0, 0, 0)], ("sort", 0, 0, 0, 0)),
        ([(3, 1, 1, 0), (0, 9, 0, 3)], ("var", 0, 1, 3, 1)),  # refused for the integers
        ([(6, 0, 3, 5), (4, 0, 2, 6)], ("roll", 0, 1, 0, 1)),  # stays channels_last
        ([(1, 2, 1, 4), (6, 8, 3, 6)], ("roll", 1, 1, 2, 2)),  # by nothing
        ([(5, 2, 1, 2), (3, 1, 0, 5)], ("softmax", 0, 0, 3, 1)),  # no elements, of any dtype
        ([(5, 8, 0, 0), (0, 0, 0, 0)], ("cummax", 0, 0, 0, 0)),
        ([(5, 8, 0, 0), (0, 0, 0, 0)], ("maximum", 0, 0, 0, 0)),
    ],
)
def test_what_was_found(starts, step):
    run_program(starts, [step])


START = st.tuples(st.integers(0, 6), st.integers(0, 9), st.integers(0, 3), st.integers(0, 8))
STEP = st.tuples(
    st.sampled_from(list(STEPS)),
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(0, 3),
    st.integers(0, 2),
)


@settings(
    max_examples=PROGRAMS,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    starts=st.lists(START, min_size=2, max_size=2),
    steps=st.lists(STEP, min_size=1, max_size=6),
)
def _programs(starts: list, steps: list) -> None:
    run_program(starts, steps)


def test_random_programs(record_property: pytest.FixtureRequest) -> None:
    torch.tpu.reset_counters()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _programs()
    counters = torch.tpu.counters()
    print(f"{PROGRAMS} programs, {counters['compiles']} compiles")
    record_property("compiles", counters["compiles"])
    assert torch.tpu.fallback_ops() == {}
