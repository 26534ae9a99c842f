"""Forms of a call beyond those of opinfo_runner.py: out= of a wrong size or dtype, strided
or overlapping, inputs that are not contiguous, channels_last, or without elements.

Each is a check of (case, sample, the CPU's result): True if it was compared, False if the form has
no meaning for the sample, DifferenceError if the device does something else than the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from error_runner import text_of
from opinfo_runner import (
    DEVICE,
    INVARIANTS,
    MORE_FORMS,
    SORTS,
    TIES,
    TOLERANCE,
    Case,
    DifferenceError,
    arguments_of,
    as_out,
    copy_to,
    copy_to_cpu,
    rebuilt,
    same,
)
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_leaves, tree_map

#: A fresh tensor, and how the out= argument is made of it.
Target = tuple[torch.Tensor, Callable[[torch.Tensor], torch.Tensor]]

#: What an out= argument may be that is none of the result's dtype.
OTHER_DTYPES = (torch.int64, torch.float64, torch.complex128, torch.bool)

NO_SUCH_FORM = "failed to match any schema"
NOT_IMPLEMENTED = "not implemented for"
FOUND_LATER = "The device found it"
RESIZED = "An output with one or more elements was resized"


# --------------------------------------------------------------------------------- out= arguments


def out_size(case: Case, sample: SampleInput, want: Any) -> bool:
    """Empty, and too long: both are resized, the second with a warning."""

    def target(t: torch.Tensor, count: int) -> Target:
        return torch.full((count,), 3).to(t.dtype), lambda x: x

    tensors = case.out_tensors(want)
    ran = compare_out(case, sample, want, [target(t, 0) for t in tensors])
    return compare_out(case, sample, want, [target(t, t.numel() + 3) for t in tensors]) or ran


def out_dtype(case: Case, sample: SampleInput, want: Any) -> bool:
    def target(t: torch.Tensor, dtype: torch.dtype) -> Target:
        return torch.zeros(t.shape, dtype=dtype), lambda x: x

    tensors = case.out_tensors(want)
    for dtype in OTHER_DTYPES:
        if any(t.dtype == dtype for t in tensors):
            continue
        compare_out(case, sample, want, [target(t, dtype) for t in tensors])
    return bool(tensors)


def out_strided(case: Case, sample: SampleInput, want: Any) -> bool:
    """Every second element of a transposed tensor; those between stay."""

    def target(t: torch.Tensor) -> Target:
        backwards = tuple(range(t.dim()))[::-1]
        base = torch.full((*reversed(t.shape), 2), 3).to(t.dtype)
        return base, lambda x: x.select(-1, 1).permute(backwards)

    return compare_out(case, sample, want, [target(t) for t in case.out_tensors(want)])


def compare_out(case: Case, sample: SampleInput, want: Any, targets: list[Target]) -> bool:
    """Raise DifferenceError unless both write the same, or raise the same."""
    if not targets:
        return False

    def call(tree: Any, device: str) -> tuple[Any, list[torch.Tensor], bool]:
        bases = [base.to(device, copy=True) for base, _ in targets]
        outs = [view(base) for base, (_, view) in zip(bases, targets, strict=True)]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            case.call(tree, out=as_out(outs, want))
            for x in outs if device == DEVICE else ():
                x.cpu()  # where a wrong index is told
        result = outs[0] if isinstance(want, torch.Tensor) else rebuilt(want, outs)
        return result, bases, any(RESIZED in str(w.message) for w in caught)

    host, there = copy_to_cpu(sample), copy_to(arguments_of(sample), DEVICE)
    expected, error = outcome(call, host, "cpu")
    if error is not None and NO_SUCH_FORM in str(error):
        return False
    got, raised = outcome(call, there, DEVICE)
    if raised is None and NOT_IMPLEMENTED in str(error):
        return True  # the device may have more dtypes than the CPU
    if same_errors(raised, error):
        return True
    # The dtype in which the operator computes decides how exact a wider out= argument is.
    computed = [t.dtype for t in tree_leaves(want) if t.dtype in TOLERANCE]
    limits = [case.limits, *(TOLERANCE[d] for d in computed)]
    own, case.limits = case.limits, tuple(max(x) for x in zip(*limits, strict=True))
    try:
        case.same_results(got[0], expected[0], there, host)
        if case.values and case.op.name not in (*TIES, *SORTS, *INVARIANTS):
            same(got[1], expected[1], case.limits)
    finally:
        case.limits = own
    if got[2] != expected[2]:
        raise DifferenceError(f"a warning that out= was resized: {got[2]}, expected {expected[2]}")
    return True


def out_overlap(case: Case, sample: SampleInput, want: Any) -> bool:
    """The input itself; a tensor that overlaps the input in part; one that overlaps itself. What
    the CPU does not refuse of the last two has no one outcome."""
    if not case.out_tensors(want) or not isinstance(want, torch.Tensor):
        return False
    ran = False
    for overlapping, defined in ((itself, True), (shifted, False), (expanded, False)):
        # Both are made from one recipe, each on its own device.
        host, there = copy_to_cpu(sample), copy_to(arguments_of(sample), DEVICE)
        host_call, device_call = overlapping(host, want, "cpu"), overlapping(there, want, DEVICE)
        if host_call is None:
            continue
        expected, error = outcome(lambda c: case.call(c[0], out=c[1]), host_call)
        if error is None and not (defined and equal(case, expected, want)):
            continue
        got, raised = outcome(lambda c: case.call(c[0], out=c[1]), device_call)
        ran = True
        if not same_errors(raised, error):
            case.same_results(got, expected, copy_to(arguments_of(sample), DEVICE), host)
    return ran


def itself(tree: Any, want: torch.Tensor, _: str) -> Any:
    x = tree[0]
    fits = isinstance(x, torch.Tensor) and x.shape == want.shape and x.dtype == want.dtype
    return (tree, x) if fits else None


def shifted(tree: Any, want: torch.Tensor, _: str) -> Any:
    x = tree[0]
    fits = isinstance(x, torch.Tensor) and x.shape == want.shape and x.dtype == want.dtype
    if not fits or x.numel() < 2:
        return None
    base = torch.cat([x.reshape(-1), x.reshape(-1)[:1]])
    return (base[:-1].view(x.shape), *tree[1:]), base[1:].view(x.shape)


def expanded(tree: Any, want: torch.Tensor, device: str) -> Any:
    if want.numel() < 2:
        return None
    return tree, torch.zeros((), dtype=want.dtype, device=device).expand(want.shape)


def equal(case: Case, got: Any, want: Any) -> bool:
    try:
        same(got, want, case.limits)
    except DifferenceError:
        return False
    return True


# ----------------------------------------------------------------------------------------- inputs


def noncontiguous(case: Case, sample: SampleInput, _: Any) -> bool:
    return compare_changed(case, arguments_of(sample.noncontiguous()))


def channels_last(case: Case, sample: SampleInput, _: Any) -> bool:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    changed = False

    def change(x: Any) -> Any:
        nonlocal changed
        if not isinstance(x, torch.Tensor) or x.dim() not in formats:
            return x
        changed = True
        return x.contiguous(memory_format=formats[x.dim()])

    tree = tree_map(change, arguments_of(sample))
    return changed and compare_changed(case, tree)


def zero_size(case: Case, sample: SampleInput, _: Any) -> bool:
    """Each size of the tensors in turn becomes 0 wherever it occurs."""
    ran = False
    for tree in emptied(arguments_of(sample)):
        ran = compare_changed(case, tree, errors=True) or ran
    return ran


def emptied(tree: Any) -> Iterator[Any]:
    tensors = [x for x in tree_leaves(tree) if isinstance(x, torch.Tensor)]
    for size in dict.fromkeys(n for x in tensors for n in x.shape if n > 1):

        def empty(x: Any, size: int = size) -> Any:
            if isinstance(x, torch.Tensor):
                for dim, n in enumerate(x.shape):
                    x = x.narrow(dim, 0, 0) if n == size else x
                return x.contiguous()
            return x

        yield tree_map(empty, tree)


def compare_changed(case: Case, tree: Any, errors: bool = False) -> bool:
    """Compare a call with changed arguments; if the CPU refuses it, its error if that is asked."""
    host, there = copy_to(tree, "cpu"), copy_to(tree, DEVICE)
    want, error = outcome(case.call, host)
    if error is not None and not errors:
        return False

    def read(tree: Any) -> Any:
        result = case.call(tree)
        for x in tree_leaves(result):
            if isinstance(x, torch.Tensor):
                x.cpu()  # where a wrong index is told
        return result

    got, raised = outcome(read, there)
    if not same_errors(raised, error):
        case.same_results(got, want, there, host)
    return True


# ----------------------------------------------------------------------------------------- errors


def outcome(function: Callable, *args: Any) -> tuple[Any, Exception | None]:
    try:
        return function(*args), None
    except Exception as error:
        return None, error


def same_errors(got: Exception | None, want: Exception | None) -> bool:
    """True if both calls raised the same; DifferenceError if only one did, or another error."""
    if got is None and want is None:
        return False
    found_later = isinstance(got, IndexError) and FOUND_LATER in str(got)
    if found_later and any(words in str(want) for words in ("out of ", "valid range")):
        return True  # the device has its own words for a wrong index
    told = [f"{type(e).__name__}: {text_of(e)}" if e else "no error" for e in (got, want)]
    if told[0] != told[1]:
        raise DifferenceError(f"{told[0][:300]}; the CPU: {told[1][:300]}")
    return True


CHECKS: dict[str, Callable] = {form: globals()[form] for form in MORE_FORMS}
