"""Tensors of the device cannot be handed to another process by reference: says so clearly."""

from __future__ import annotations

from multiprocessing import reduction
from typing import Any

import torch
from torch.multiprocessing import reductions


def _reduce_storage(storage: torch.UntypedStorage) -> Any:
    """What multiprocessing sends for a storage. Raises RuntimeError for one on a tpu device."""
    if storage.device.type == "tpu":
        raise RuntimeError(
            "A tensor on a tpu device cannot be sent to another process: its memory is private to "
            "this one. Send tensor.cpu(), and move it to the device on the other side."
        )
    return reductions.reduce_storage(storage)


def register() -> None:
    """Registers the above with multiprocessing's pickler; other devices see no change."""
    reduction.register(torch.UntypedStorage, _reduce_storage)
