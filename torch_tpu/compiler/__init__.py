"""``torch.compile(model, backend="tpu")``: each graph becomes one program of the device."""

from __future__ import annotations

from torch_tpu.compiler.backend import tpu

__all__ = ["tpu"]
