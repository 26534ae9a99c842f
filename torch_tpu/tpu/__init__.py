"""``torch.tpu``: the device's module, with the names that ``torch.cuda`` has.

Nothing here starts the runtime before a device is needed. ``device`` arguments may be an index, a
string, a ``torch.device``, or None for the current device.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import torch

from torch_tpu._load import C
from torch_tpu.dlpack import to_dlpack
from torch_tpu.tpu import _utils, amp, float32, memory, random
from torch_tpu.tpu.amp import get_amp_supported_dtype
from torch_tpu.tpu.compiles import explain_compiles
from torch_tpu.tpu.devices import (
    _DeviceProperties,
    _exchange_device,
    _maybe_exchange_device,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_arch_list,
    get_device_capability,
    get_device_name,
    get_device_properties,
    get_gencode_flags,
    is_available,
    is_bf16_supported,
    is_tf32_supported,
    set_device,
    supported_dtypes,
)
from torch_tpu.tpu.memory import (
    empty_cache,
    get_allocator_backend,
    get_per_process_memory_fraction,
    max_memory_allocated,
    max_memory_cached,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_cached,
    memory_reserved,
    memory_snapshot,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_max_memory_allocated,
    reset_max_memory_cached,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from torch_tpu.tpu.modes import EagerMode, eager_mode, get_eager_mode, set_eager_mode
from torch_tpu.tpu.random import (
    _get_generator,
    _get_rng_state_offset,
    _set_rng_state_offset,
    default_generators,
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_tpu.tpu.streams import (
    Event,
    Stream,
    StreamContext,
    _set_stream_by_id,
    current_stream,
    default_stream,
    is_current_stream_capturing,
    set_stream,
    stream,
    synchronize,
)

OutOfMemoryError = torch.OutOfMemoryError
# Read by torch.utils.checkpoint, which saves a generator's state only where it is True. States can
# be had before the runtime starts.
_initialized = True

has_half = True
has_magma = False


def init() -> None:
    """Starts the runtime. Every use of a device does; this only chooses when. Raises RuntimeError
    if there is no plugin, if it does not load, or after a fork."""
    C.start()


_lazy_init = init


def _lazy_call(function: Any, **kwargs: Any) -> None:
    """Runs the function: nothing here has to wait for the runtime."""
    function()


def is_initialized() -> bool:
    """True if the runtime has been started, and not in a child forked since."""
    return C.started() and not C.in_bad_fork()


def _is_in_bad_fork() -> bool:
    """True in a process forked after the runtime was started: the device cannot be used there."""
    return C.in_bad_fork()


def _is_compiled() -> bool:
    return True


def counters() -> dict[str, Any]:
    """What has been done since the start or ``reset_counters``: ``compiles``, ``executions``,
    ``cache_hits``, ``disk_cache_hits``, ``disk_cache_misses``, ``cpu_fallbacks``,
    ``compile_seconds``."""
    return C.counters()


def reset_counters() -> None:
    """Makes all counters zero and forgets ``fallback_ops``."""
    C.reset_counters()


def fallback_ops() -> dict[str, int]:
    """The operators that ran on the CPU for want of a lowering, and how often."""
    return C.fallback_ops()


def ipc_collect() -> None:
    """Does nothing: no other process can hold this one's device memory."""


def get_sync_debug_mode() -> int:
    """0: waits are not reported."""
    return 0


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Accepted; waits are not reported."""


class _TpuModule(types.ModuleType):
    """A module with properties."""

    @property
    def precision(self) -> float32.Precision:
        return float32.get_precision()

    @precision.setter
    def precision(self, value: str | None) -> None:
        float32.set_precision(value)


sys.modules[__name__].__class__ = _TpuModule

_others = ("Any", "annotations", "float32", "sys", "torch", "types")
__all__ = [name for name in globals() if not name.startswith("_") and name not in _others]
__all__ += ["_utils", "precision"]
