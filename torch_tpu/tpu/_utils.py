"""Device arguments of the functions in ``torch.tpu``."""

from __future__ import annotations

from typing import Any

import torch

from torch_tpu._load import C


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The index that ``device`` means: an int, a string, a torch.device, or None.

    Args:
        device: None and "tpu" mean the current device, but only if ``optional``.
        optional: whether an index may be missing.
        allow_cpu: whether a CPU device is accepted; its index is -1.

    Raises:
        ValueError: the device is of another type, or the index is missing.
    """
    if isinstance(device, bool):
        raise ValueError(f"Expected a tpu device, but got: {device}")
    if isinstance(device, int):
        if device < 0 and not optional:
            raise ValueError(f"Expected a tpu device with an index, but got: {device}")
        return device if device >= 0 else C.current_device()
    if isinstance(device, str):
        device = torch.device(device)
    if isinstance(device, torch.device):
        if allow_cpu and device.type == "cpu":
            return -1
        if device.type != "tpu":
            raise ValueError(f"Expected a tpu device, but got: {device}")
        if device.index is not None:
            return device.index
    elif device is not None:
        raise ValueError(f"Expected a tpu device, but got: {device!r}")
    if not optional:
        raise ValueError(f"Expected a tpu device with an index, but got: {device}")
    return C.current_device()
