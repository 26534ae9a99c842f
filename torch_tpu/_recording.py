"""The scope in which operators are recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def recorded(capture: Any) -> Iterator[None]:
    """Within, the operators of this thread are recorded by a ``C.Capture`` or
    ``C.AbstractDevice``, those of backward too: it runs on this thread."""
    capture.enter()
    try:
        with torch.autograd.set_multithreading_enabled(False):
            yield
    finally:
        capture.exit()
