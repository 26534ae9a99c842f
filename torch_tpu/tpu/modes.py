"""Eager modes: when the operators that a program calls become programs of the device."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator

from torch_tpu._load import C


class EagerMode(enum.Enum):
    """The schedule of operators that are called one by one."""

    DEFER_NEVER = 0
    """Strict, the default: each operator is a program of its own, which starts at once."""
    DEFER_NEVER_AND_LAUNCH_BLOCKING = 1
    """Debug: as Strict, and each call waits for its work and raises its errors."""
    DEFER_AND_FUSE = 2
    """Fused: operators are recorded, and run as one program when a value is read, at
    ``synchronize()``, and where a training step ends."""


def get_eager_mode() -> EagerMode:
    """The mode of this process. It starts as ``TORCH_TPU_LAUNCH_BLOCKING=1`` (Debug) or
    ``TORCH_TPU_DEFER_AND_FUSE=1`` (Fused) say."""
    return EagerMode(C.eager_mode())


class set_eager_mode:
    """Changes the mode of the process: from now on, or as a context manager for a block.

    What was recorded before the change is run. ``mode`` is an :class:`EagerMode`.
    """

    def __init__(self, mode: EagerMode) -> None:
        if not isinstance(mode, EagerMode):
            raise TypeError(
                f"expected a torch.tpu.EagerMode, such as EagerMode.DEFER_AND_FUSE, got {mode!r}"
            )
        self._before = get_eager_mode()
        C.set_eager_mode(mode.value)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        C.set_eager_mode(self._before.value)


@contextlib.contextmanager
def eager_mode(mode: EagerMode) -> Iterator[None]:
    """Context manager and decorator: the mode ``mode`` within a block or a function."""
    with set_eager_mode(mode):
        yield
