"""Random programs of views, in-place writes and reads over shared storages; after every step the
device must look like the CPU: values of every storage, sizes, strides, offsets, aliasing, errors.

TORCH_TPU_TEST_PROGRAMS=N runs N programs instead of 2,000."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PROGRAMS = int(os.environ.get("TORCH_TPU_TEST_PROGRAMS", "2000"))
BASES = [(4, 6), (2, 3, 4), (6,), (), (0, 3), (2, 4, 2, 2)]
DTYPES = [torch.float32, torch.int32, torch.complex64, torch.bool, torch.bfloat16]


def base(kind: int, dtype: int, fill: int) -> torch.Tensor:
    """A fresh CPU tensor; the 4-d one is channels_last."""
    shape = BASES[kind % len(BASES)]
    count = int(torch.Size(shape).numel())
    values = (torch.arange(count) * 3 + fill) % 7 - 2
    x = values.to(DTYPES[dtype % len(DTYPES)]).reshape(shape)
    if x.is_complex():
        x = x + 1j * x.flip(0) if x.dim() else x * (1 - 2j)
    return x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x


# Every step is a function of a tensor and two small numbers; the numbers are brought into range by
# the step, but not always: some steps must raise.


def dim_of(x: torch.Tensor, a: int) -> int:
    return a % max(x.dim(), 1)


def size_of(x: torch.Tensor, a: int) -> int:
    return x.shape[dim_of(x, a)] if x.dim() else 1


def as_strided(x: torch.Tensor, a: int, b: int) -> torch.Tensor:
    size, stride = [((2, 2), (1, 2)), ((3,), (2,)), ((2, 2), (1, 1)), ((2, 1), (3, 0))][a % 4]
    return x.as_strided(size, stride, x.storage_offset() + b % 2)


def expand(x: torch.Tensor, a: int, b: int) -> torch.Tensor:
    return x.expand(2, *x.shape) if a % 2 else x.unsqueeze(dim_of(x, b)).expand(*x.shape, -1)


def view_dtype(x: torch.Tensor, a: int, _: int) -> torch.Tensor:
    return x.view([torch.int32, torch.float32, torch.int16, torch.uint8][a % 4])


VIEWS: dict[str, Callable] = {
    "select": lambda x, a, b: x.select(dim_of(x, a), b - 1),
    "slice": lambda x, a, b: x[(slice(None),) * dim_of(x, a) + (slice(b % 2, None, 1 + b // 2),)],
    "narrow": lambda x, a, b: x.narrow(dim_of(x, a), b, max(size_of(x, a) - 2, 1)),
    "transpose": lambda x, a, b: x.transpose(dim_of(x, a), dim_of(x, b)),
    "permute": lambda x, a, b: x.permute(*[(i + 1) % x.dim() for i in range(x.dim())]),
    "expand": expand,
    "as_strided": as_strided,
    "unfold": lambda x, a, b: x.unfold(dim_of(x, a), 2, 1 + b % 2),
    "diagonal": lambda x, a, b: x.diagonal(b % 3 - 1, 0, 1),
    "view": lambda x, a, b: x.view([(-1,), (2, -1), (-1, 3), (3, 4)][a % 4]),
    "reshape": lambda x, a, b: x.reshape([(-1,), (2, -1), (-1, 2)][a % 3]),
    "unsqueeze": lambda x, a, b: x.unsqueeze(a % (x.dim() + 1)),
    "squeeze": lambda x, a, b: x.squeeze(),
    "view_dtype": view_dtype,
    "view_as_real": lambda x, a, b: torch.view_as_real(x),
    "view_as_complex": lambda x, a, b: torch.view_as_complex(x),
    "real": lambda x, a, b: x.real,
    "imag": lambda x, a, b: x.imag,
    "conj": lambda x, a, b: x.conj(),
    "neg_view": lambda x, a, b: torch._neg_view(x) if x.dtype != torch.bool else x.detach(),
    "detach": lambda x, a, b: x.detach(),
}

WRITES: dict[str, Callable] = {
    "add_": lambda x, a, b: x.add_(a),
    "mul_": lambda x, a, b: x.mul_(b),
    "fill_": lambda x, a, b: x.fill_(a),
    "zero_": lambda x, a, b: x.zero_(),
    "copy_": lambda x, a, b: x.copy_(
        torch.arange(x.numel()).reshape(x.shape).to(x.dtype).to(x.device)
    ),
    "index_assign": lambda x, a, b: x.__setitem__(b % 2, a),
    "slice_assign": lambda x, a, b: x.__setitem__(slice(b % 2, None, 2), a),
    "tensor_index_assign": lambda x, a, b: x.__setitem__(torch.tensor([0, -1], device=x.device), a),
    "masked_fill_": lambda x, a, b: x.masked_fill_(x == 1, a),
    "add_self_": lambda x, a, b: x.add_(x),
}

# Writes that have no one outcome if elements share memory and PyTorch does not notice.
ORDERED = ("add_", "mul_", "copy_", "add_self_")

COPIES: dict[str, Callable] = {
    "clone": lambda x, a, b: x.clone(),
    "contiguous": lambda x, a, b: x.contiguous(),
    "flip": lambda x, a, b: x.flip(dim_of(x, a)),
    "resolve": lambda x, a, b: x.resolve_conj().resolve_neg(),
    "add": lambda x, a, b: x + x,
}

STEPS = {**VIEWS, **WRITES, **COPIES}
# Views are drawn more often than what ends in a program.
NAMES = list(VIEWS) * 2 + list(WRITES) * 2 + list(COPIES)


@dataclass
class Pair:
    """A tensor of the CPU, the same one of the device, and the first of its storage."""

    host: torch.Tensor
    device: torch.Tensor
    root: int


def shares_elements(x: torch.Tensor) -> bool:
    """True if elements share memory, so that the outcome of a write depends on an order."""
    reach = 0
    for stride, size in sorted((s, n) for s, n in zip(x.stride(), x.shape, strict=True) if n > 1):
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def attempt(step: Callable, x: torch.Tensor, a: int, b: int):
    try:
        return step(x, a, b), None
    except Exception as error:
        return None, error


def same_values(got: torch.Tensor, want: torch.Tensor) -> None:
    torch.testing.assert_close(got.cpu(), want, rtol=1e-6, atol=0, equal_nan=True)


def same_metadata(pairs: list[Pair], new: Pair) -> None:
    host, device, root = new.host, new.device, pairs[new.root]
    for ask in (
        lambda x: (x.shape, x.storage_offset(), x.dtype),
        # The strides of a copy without elements mean nothing.
        lambda x: x.stride() if x.numel() or new.root < len(pairs) - 1 else None,
        lambda x: (x.is_conj(), x.is_neg(), x.is_contiguous(), x.untyped_storage().nbytes()),
    ):
        assert ask(device) == ask(host)
    assert device.device.type == "tpu"
    if host.numel():
        offset = host.data_ptr() - root.host.data_ptr()
        assert device.data_ptr() - root.device.data_ptr() == offset
    for other in pairs:
        shared = device.untyped_storage()._cdata == other.device.untyped_storage()._cdata
        assert shared == (host.untyped_storage()._cdata == other.host.untyped_storage()._cdata)


def run_program(first: tuple[int, int, int], steps: list[tuple[int, str, int, int]]) -> None:
    host = base(*first)
    pairs = [Pair(host, host.to("tpu"), 0)]
    same_metadata(pairs, pairs[0])
    for which, name, a, b in steps:
        subject = pairs[which % len(pairs)]
        if name in ORDERED and 0 not in subject.host.stride() and shares_elements(subject.host):
            continue
        version = subject.host._version
        want, error = attempt(STEPS[name], subject.host, a, b)
        got, raised = attempt(STEPS[name], subject.device, a, b)
        assert (error is None) == (raised is None), (error, raised)
        if error is not None:
            assert type(raised) is type(error), (error, raised)
        if name in WRITES:
            # A refused write leaves what is there; a done one is seen by every view.
            for pair in {p.root: pairs[p.root] for p in pairs}.values():
                same_values(pair.device, pair.host)
            if error is None:
                assert subject.device._version - version == subject.host._version - version
        elif error is None:
            shared = want.untyped_storage()._cdata == subject.host.untyped_storage()._cdata
            new = Pair(want, got, subject.root if shared else len(pairs))
            pairs.append(new)
            same_metadata(pairs, new)
            if not shared:
                same_values(got, want)
    for pair in pairs[-2:]:
        same_values(pair.device, pair.host)


STEP = st.tuples(st.integers(0, 5), st.sampled_from(NAMES), st.integers(0, 3), st.integers(0, 3))


@settings(
    max_examples=PROGRAMS,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(
    first=st.tuples(st.integers(0, len(BASES) - 1), st.integers(0, len(DTYPES) - 1), st.just(1)),
    steps=st.lists(STEP, min_size=1, max_size=6),
)
def _programs(first: tuple[int, int, int], steps: list) -> None:
    run_program(first, steps)


def test_random_programs(record_property: pytest.FixtureRequest) -> None:
    torch.tpu.reset_counters()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _programs()
    counters = torch.tpu.counters()
    print(f"{PROGRAMS} programs, {counters['compiles']} compiles")
    record_property("compiles", counters["compiles"])
    assert torch.tpu.fallback_ops() == {}
