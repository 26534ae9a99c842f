"""Memory of the devices.

Counted are the bytes of tensors' storages. Nothing is kept back when a tensor dies, so that memory
"reserved" is memory allocated, and there is no cache to empty.
"""

from __future__ import annotations

import pickle
import textwrap
from collections import OrderedDict
from typing import Any

from torch_tpu._load import C
from torch_tpu.tpu._utils import _get_device_index

__all__ = [
    "empty_cache",
    "get_per_process_memory_fraction",
    "set_per_process_memory_fraction",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
]


# sys.maxsize is PyTorch's default, and grows until the machine is full.
_MOST_ENTRIES = 1 << 20


def _stats(device: Any) -> dict[str, Any]:
    return C.memory_stats(_get_device_index(device, optional=True))


def memory_allocated(device: Any = None) -> int:
    """Bytes of the storages on the device now."""
    return _stats(device)["bytes"]["current"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes of storages at once, since the start or ``reset_peak_memory_stats``."""
    return _stats(device)["bytes"]["peak"]


memory_reserved = memory_allocated
max_memory_reserved = max_memory_allocated
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def memory_stats_as_nested_dict(device: Any = None) -> dict[str, Any]:
    """The statistics of ``memory_stats`` as dicts in dicts; empty before the runtime starts."""
    if not C.started():
        return {}
    stats = _stats(device)
    size, count = stats["bytes"], stats["count"]
    none = dict.fromkeys(("current", "peak", "allocated", "freed"), 0)

    def pools(stat: dict[str, int]) -> dict[str, dict[str, int]]:
        return {"all": dict(stat), "small_pool": dict(none), "large_pool": dict(stat)}

    return {
        "allocation": pools(count),
        "segment": pools(count),
        "active": pools(count),
        "inactive_split": pools(none),
        "allocated_bytes": pools(size),
        "reserved_bytes": pools(size),
        "active_bytes": pools(size),
        "requested_bytes": pools(size),
        "inactive_split_bytes": pools(none),
        "oversize_allocations": dict(none),
        "oversize_segments": dict(none),
        "num_alloc_retries": 0,
        "num_ooms": stats["out_of_memory"],
        "num_sync_all_streams": 0,
        "num_device_alloc": count["allocated"],
        "num_device_free": count["freed"],
        "max_split_size": -1,
    }


def _flatten(prefix: str, value: Any, into: list[tuple[str, Any]]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _flatten(f"{prefix}.{key}" if prefix else key, inner, into)
    else:
        into.append((prefix, value))


def memory_stats(device: Any = None) -> OrderedDict[str, Any]:
    """Statistics under the names that ``torch.cuda.memory_stats`` gives, such as
    "allocated_bytes.all.peak" (bytes) and "num_ooms"."""
    items: list[tuple[str, Any]] = []
    _flatten("", memory_stats_as_nested_dict(device), items)
    return OrderedDict(sorted(items))


def reset_peak_memory_stats(device: Any = None) -> None:
    """Makes the peaks what is in use now."""
    C.reset_peak_memory_stats(_get_device_index(device, optional=True))


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Makes the sums "allocated" and "freed", and the number of failures, zero."""
    C.reset_accumulated_memory_stats(_get_device_index(device, optional=True))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free, total) bytes of the device. Total is what the plugin says, or
    ``TORCH_TPU_MEMORY_LIMIT_MB``, or the host's memory. Starts the runtime."""
    return C.memory_info(_get_device_index(device, optional=True))


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Lets tensors fill only this part of the device's memory, from 0 to 1; beyond it
    torch.OutOfMemoryError is raised. Raises ValueError for other numbers."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    C.set_memory_fraction(_get_device_index(device, optional=True), float(fraction))


def get_per_process_memory_fraction(device: Any = None) -> float:
    """What ``set_per_process_memory_fraction`` has set; 1 at first."""
    return C.memory_fraction(_get_device_index(device, optional=True))


def empty_cache() -> None:
    """Does nothing: the memory of a tensor goes back when the tensor dies."""


def get_allocator_backend() -> str:
    """Name of the allocator."""
    return "pjrt"


def _size(value: int, like: int) -> str:
    """The bytes in the unit that suits `like`, as PyTorch's summary writes them."""
    unit = "B  "
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if like < 768 * 1024:
            break
        unit, value, like = larger, value // 1024, like // 1024
    return f"{value:6d} {unit}"


def _count(value: int, like: int) -> str:
    unit = " "
    for larger in ("K", "M"):
        if like < 750 * 1000:
            break
        unit, value, like = larger, value // 1000, like // 1000
    return f"{value:7d} {unit} "


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The statistics as a table, laid out as that of ``torch.cuda.memory_summary``, and who takes
    most.

    Args:
        device: None means the current device.
        abbreviated: leaves out who takes most.
    """
    index = _get_device_index(device, optional=True)
    stats = C.memory_stats(index)
    rows = [
        ("Allocated memory", stats["bytes"], _size),
        ("TPU reserved memory", stats["bytes"], _size),
        ("Allocations", stats["count"], _count),
        ("TPU reserved segments", stats["count"], _count),
    ]
    columns = ("current", "peak", "allocated", "freed")
    thick, thin = "=" * 75, "-" * 75
    ooms = f"TPU OOMs: {stats['out_of_memory']}"
    lines = [
        thick,
        f"{f'PyTorch TPU memory summary, device ID {index}':^75}",
        thin,
        f"{ooms:^75}",
        thick,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    for name, stat, shown in rows:
        cells = " | ".join(shown(stat[column], stat[column]) for column in columns)
        lines += [thin, f" {name:<21} | {cells} "]
    lines.append(thick)
    if not abbreviated and C.started():
        lines += [f" {line:<74}" for line in textwrap.wrap(C.memory_usage(index), 73)]
        lines.append(thick)
    return "|" + "|\n|".join(lines) + "|\n"


# ---- snapshots, in the form that PyTorch's memory visualizer reads


def memory_snapshot(device: Any = None) -> list[dict[str, Any]]:
    """The storages of all devices (or of one), each a segment with one block. It has the frames of
    its allocation if ``_record_memory_history`` was on."""
    if not C.started():
        return []
    if device is None:
        indices = list(range(C.device_count()))
    else:
        indices = [_get_device_index(device, optional=True)]
    return [segment for index in indices for segment in _segments(index)]


def _segments(index: int) -> list[dict[str, Any]]:
    frames = C.allocation_frames(index)
    return [
        {
            "device": index,
            "address": address,
            "total_size": size,
            "allocated_size": size,
            "active_size": size,
            "requested_size": size,
            "stream": 0,
            "segment_type": "large",
            "segment_pool_id": (0, 0),
            "is_expandable": False,
            "frames": frames.get(address, []),
            "blocks": [
                {
                    "address": address,
                    "size": size,
                    "requested_size": size,
                    "state": "active_allocated",
                    "frames": frames.get(address, []),
                }
            ],
        }
        for address, size in C.storages(index)
    ]


def _record_memory_history(
    enabled: str | None = "all", *args: Any, max_entries: int = 1 << 16, **kwargs: Any
) -> None:
    """Starts to record who allocates and frees, for snapshots.

    Args:
        enabled: "all": allocations with their Python frames, and the events of the past. "state" is
            the same here. None: stops, and forgets.
        max_entries: so many events of each device are kept, the newest.

    Other arguments of ``torch.cuda.memory._record_memory_history`` are accepted. What was recorded
    before is forgotten.
    """
    if enabled not in ("all", "state", None):
        raise ValueError(f'expected "all", "state" or None, got {enabled!r}')
    if enabled is not None and max_entries < 1:
        raise ValueError(f"max_entries must be positive, got {max_entries}")
    C.record_memory_history(0 if enabled is None else min(max_entries, _MOST_ENTRIES))


def _snapshot(device: Any = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """A snapshot of memory, as ``torch.cuda.memory._snapshot`` gives it: what is allocated, and, if
    history is recorded, what was allocated and freed."""
    return {
        "segments": memory_snapshot(device),
        "device_traces": [C.memory_events(index) for index in range(C.device_count())],
        "allocator_settings": {},
        "external_annotations": [],
    }


def _dump_snapshot(filename: str = "dump_snapshot.pickle", **kwargs: Any) -> None:
    """Writes ``_snapshot()`` to a file, for https://pytorch.org/memory_viz."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(**kwargs), file)
