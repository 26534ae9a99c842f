"""``torch.compile(model, backend="tpu")``: each graph becomes one program of the device; and
:func:`train_step`, a whole training step as one program."""

from __future__ import annotations

from torch_tpu.compiler.backend import tpu
from torch_tpu.compiler.train_step import TrainStep, train_step

__all__ = ["TrainStep", "tpu", "train_step"]
