"""Devices: which there are, which is current, what they are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from torch_tpu._load import C
from torch_tpu.tpu._utils import _get_device_index


def is_available() -> bool:
    """True if a plugin is there for the device to run on. Starts nothing and never raises."""
    return C.is_available()


def device_count() -> int:
    """Number of devices; 0 if there is no plugin. Never raises."""
    return C.device_count()


def current_device() -> int:
    """Index of this thread's current device."""
    return C.current_device()


def set_device(device: Any) -> None:
    """Makes the device this thread's current one. Raises RuntimeError if there is no such device.
    Using ``with torch.tpu.device(...)`` or a device argument is mostly better."""
    index = _get_device_index(device, optional=True)
    C.set_device(index)


def _exchange_device(device: int) -> int:
    """Sets the current device and returns the one before; a negative index sets nothing."""
    return C.exchange_device(device)


_maybe_exchange_device = _exchange_device


class device:
    """Makes a device current within a ``with`` block.

    Args:
        device: an int, a string, a torch.device; None does nothing.
    """

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else _get_device_index(device, optional=True)
        self.prev_idx = -1

    def __enter__(self) -> device:
        self.prev_idx = C.exchange_device(self.idx)
        return self

    def __exit__(self, *exc: object) -> None:
        C.exchange_device(self.prev_idx)


class device_of(device):
    """Makes the device of a tensor or storage current; nothing if it is not on a tpu device."""

    def __init__(self, obj: Any) -> None:
        on_tpu = obj.device.type == "tpu"
        super().__init__(obj.device if on_tpu else None)


@dataclass(frozen=True)
class _DeviceProperties:
    """What is known of a device.

    ``total_memory`` is in bytes: the device's own, or the host's where they share it.
    ``multi_processor_count`` is the number of cores. ``attributes`` are the plugin's own words.
    """

    name: str
    type: str
    kind: str
    platform: str
    total_memory: int
    multi_processor_count: int
    major: int
    minor: int
    id: int
    local_hardware_id: int
    is_tpu: bool
    attributes: dict[str, Any] = field(repr=False)


_TPU_NAMES = {
    "TPU v5 lite": "TPU v5e",
    "TPU v5": "TPU v5p",
    "TPU v6 lite": "TPU v6e",
    "TPU7x": "TPU v7x",
}


def _name_of(info: dict[str, Any]) -> str:
    """ "TPU v6e" and the like; on a CPU plugin something that nobody takes for a TPU."""
    kind = info["kind"]
    if info["platform"] == "tpu":
        return _TPU_NAMES.get(kind, kind)
    return f"{kind.upper()} (XLA {info['platform'].upper()} plugin, not a TPU)"


def _generation(name: str) -> int:
    digits = name.removeprefix("TPU v")[:1] if name.startswith("TPU v") else ""
    return int(digits) if digits.isdigit() else 0


def get_device_properties(device: Any = None) -> _DeviceProperties:
    """Properties of a device (None: the current one). Starts the runtime; raises RuntimeError if
    there is no such device."""
    info = C.device_info(_get_device_index(device, optional=True))
    name = _name_of(info)
    attributes = info["attributes"]
    return _DeviceProperties(
        name=name,
        type="tpu",
        kind=info["kind"],
        platform=info["platform"],
        total_memory=info["total_memory"],
        multi_processor_count=int(attributes.get("num_cores", 1)),
        major=_generation(name),
        minor=0,
        id=info["id"],
        local_hardware_id=info["local_hardware_id"],
        is_tpu=info["platform"] == "tpu",
        attributes=attributes,
    )


def get_device_name(device: Any = None) -> str:
    """Model of a device, e.g. "TPU v6e"."""
    return get_device_properties(device).name


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """(generation of the TPU, 0); (0, 0) on a CPU plugin."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def supported_dtypes() -> set[torch.dtype]:
    """The element types that tensors on the device can have."""
    return torch.accelerator.get_device_capability("tpu")["supported_dtypes"]


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """True: copies between devices need no host memory of the caller's."""
    return _get_device_index(device, True) != _get_device_index(peer_device, True)


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """True, on every plugin."""
    return True


def is_tf32_supported() -> bool:
    """False: that format is not one of a TPU."""
    return False


def get_arch_list() -> list[str]:
    """Empty: programs are compiled for the device when they are first run."""
    return []


def get_gencode_flags() -> str:
    """Empty, for the same reason."""
    return ""
