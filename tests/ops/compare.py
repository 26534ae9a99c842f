"""Running one function on the CPU and on the device, and comparing all that can be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map


def copied(x: Any, device: str) -> Any:
    """A copy on the device; a tensor keeps its strides and its offset."""
    if not isinstance(x, torch.Tensor):
        return x
    if x.is_contiguous() and x.storage_offset() == 0:
        return x.to(device, copy=True)
    reach = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True))
    flat = x.as_strided((x.storage_offset() + reach + 1 if x.numel() else 0,), (1,), 0)
    return flat.to(device, copy=True).as_strided(x.shape, x.stride(), x.storage_offset())


def outcome(function: Callable, arguments: Any) -> Any:
    try:
        return function(*arguments)
    except Exception as error:
        return type(error).__name__, str(error).splitlines()[0]


def check(function: Callable, *arguments: Any, strides: bool = True, **tolerance: float) -> None:
    """The function does the same on both: results or the error, what it writes to its arguments,
    strides; and nothing falls back."""
    torch.tpu.reset_counters()
    host = tree_map(lambda x: copied(x, "cpu"), arguments)
    there = tree_map(lambda x: copied(x, "tpu"), arguments)
    want, got = outcome(function, host), outcome(function, there)
    assert not torch.tpu.fallback_ops(), torch.tpu.fallback_ops()
    if isinstance(want, tuple) and isinstance(want[0], str):
        assert got == want, f"{got}, expected {want}"
        return
    assert not (isinstance(got, tuple) and isinstance(got[0], str)), got
    for g, w in zip(tree_leaves((got, there)), tree_leaves((want, host)), strict=True):
        if not isinstance(w, torch.Tensor):
            assert g == w
            continue
        torch.testing.assert_close(
            g.cpu(),
            w,
            equal_nan=True,
            check_stride=False,
            **({"rtol": None, "atol": None} | tolerance),
        )
        if strides and w.numel():
            sized = [i for i, n in enumerate(w.shape) if n > 1]
            same = [g.stride(i) for i in sized] == [w.stride(i) for i in sized]
            assert same, f"strides {g.stride()}, expected {w.stride()}"
