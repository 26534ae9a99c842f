"""DLPack.

PyTorch 2.13 refuses ``tensor.__dlpack__`` for a device that it knows by plug-in only, and PJRT's
memory is not addressable for others. So tensors go through host memory, in both directions::

    numpy.from_dlpack(torch.tpu.to_dlpack(tensor))
    torch.from_dlpack(array, device="tpu")

Between torch and torch, a capsule of ``torch.utils.dlpack.to_dlpack`` shares device memory; the
tensor must begin where its storage does.
"""

from __future__ import annotations

from typing import Any

import torch


class HostCopy:
    """What ``to_dlpack`` gives: a copy of a tensor in host memory, for any ``from_dlpack``."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def __dlpack__(self, **kwargs: Any) -> Any:
        return self._tensor.__dlpack__(**kwargs)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._tensor.__dlpack_device__()


def to_dlpack(tensor: torch.Tensor) -> HostCopy:
    """An object that every library's ``from_dlpack`` takes.

    Args:
        tensor: of any shape, on any device; one on a tpu device is copied to the host, and later
            changes of either are not seen by the other.

    Raises:
        BufferError: the tensor requires grad.
    """
    if tensor.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    return HostCopy(tensor.resolve_conj().resolve_neg().cpu())
