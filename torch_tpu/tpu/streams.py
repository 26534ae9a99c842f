"""Streams and events.

A device runs all work in the order in which it was given, on whichever stream, so that code made
for streams is right here, and overlaps nothing that the device would not overlap by itself.
"""

from __future__ import annotations

from typing import Any

import torch

from torch_tpu._load import C
from torch_tpu.tpu._utils import _get_device_index


class _OfThisDevice(type):
    """The classes below make plain torch.Stream and torch.Event objects (some of torch's methods
    take no objects of derived classes); those of this device are their instances."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.__base__) and instance.device.type == "tpu"


class Stream(torch.Stream, metaclass=_OfThisDevice):
    """A stream of a device.

    Args:
        device: the device (None: the current one).
        priority: accepted; all streams have the same.
    """

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> torch.Stream:
        if "stream_id" in kwargs:
            return torch.Stream(priority=priority, **kwargs)
        index = _get_device_index(device, optional=True)
        return torch.Stream(device=torch.device("tpu", index), priority=priority, **kwargs)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """Least and greatest priority: all are the same."""
        return (0, 0)


class Event(torch.Event, metaclass=_OfThisDevice):
    """A mark in the work given to a device, that can be waited for.

    Args:
        enable_timing: whether ``elapsed_time`` works. Times are those at which the host sees the
            work end.
        blocking, interprocess: accepted; waits always block, and no other process can see it.
    """

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> torch.Event:
        return torch.Event(device=torch.device("tpu"), enable_timing=enable_timing)


def current_stream(device: Any = None) -> torch.Stream:
    """This thread's current stream of the device (None: the current device)."""
    return torch._C._accelerator_getStream(_get_device_index(device, optional=True))


def default_stream(device: Any = None) -> torch.Stream:
    """The device's default stream."""
    index = _get_device_index(device, optional=True)
    kind = torch._C._autograd.DeviceType.PrivateUse1
    return Stream(stream_id=0, device_index=index, device_type=int(kind.value))


def set_stream(stream: torch.Stream | None) -> None:
    """Makes the stream, and its device, this thread's current ones. None does nothing."""
    if stream is not None:
        torch._C._accelerator_setStream(stream)


def _set_stream_by_id(stream_id: int, device_index: int, device_type: int) -> None:
    set_stream(Stream(stream_id=stream_id, device_index=device_index, device_type=device_type))


class StreamContext:
    """Makes a stream, and its device, current within a ``with`` block. None does nothing."""

    cur_stream: torch.Stream | None

    def __init__(self, stream: torch.Stream | None) -> None:
        self.stream = stream
        self._before: tuple[int, torch.Stream, torch.Stream] | None = None

    def __enter__(self) -> torch.Stream | None:
        if self.stream is not None:
            device = C.current_device()
            here = current_stream(device)
            there = current_stream(self.stream.device_index)
            self._before = (device, here, there)
            set_stream(self.stream)
        return self.stream

    def __exit__(self, *exc: object) -> None:
        if self._before is not None:
            device, here, there = self._before
            self._before = None
            set_stream(there)
            set_stream(here)
            C.set_device(device)


def stream(stream: torch.Stream | None) -> StreamContext:
    """``with torch.tpu.stream(s):`` makes s current."""
    return StreamContext(stream)


def synchronize(device: Any = None) -> None:
    """Waits for all work given to the device (None: the current one). Raises what went wrong in
    it, such as an index out of range."""
    C.synchronize(_get_device_index(device, optional=True))


def is_current_stream_capturing() -> bool:
    """False: graphs are captured by torch.compile, not from streams."""
    return False
