"""How exact products of float32 are: ``torch.tpu.precision``."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from torch_tpu._load import C

# As stablehlo::Precision numbers them.
_VALUES = ("default", "high", "highest")


class Precision(str):
    """What ``torch.tpu.precision`` is: the setting in force, one of "default", "high", "highest".

    It decides how a TPU multiplies float32 matrices, in products, convolutions and attention: in
    1, 3 or 6 passes of bfloat16, summed up in float32. CPU plugins always compute float32 exactly.

    * ``torch.tpu.precision`` reads it, ``torch.tpu.precision = "high"`` sets it for the process.
    * ``with torch.tpu.precision("high"):`` sets it for a block. It also decorates functions. The
      block is one of time: other threads see the setting, those of ``backward()`` among them.

    ``None``, as it is at first, leaves the choice to PyTorch's own settings:
    ``torch.set_float32_matmul_precision`` ("highest", "high", and "medium", which is "default"
    here), else ``torch.backends.fp32_precision`` ("ieee" is "highest", "tf32" is "high", "bf16" is
    "default"). Without any it is "highest". Settings for one library, such as
    ``torch.backends.cuda.matmul.fp32_precision``, do not count.

    Each value has programs of its own: changing it compiles the products once more, and changing it
    back compiles nothing.
    """

    __slots__ = ()

    def __call__(self, value: str | None) -> contextlib.AbstractContextManager[None]:
        return _within(_number(value))


def _number(value: str | None) -> int | None:
    if value is None:
        return None
    if value not in _VALUES:
        raise ValueError(f'expected "default", "high", "highest" or None, got {value!r}')
    return _VALUES.index(value)


@contextlib.contextmanager
def _within(number: int | None) -> Iterator[None]:
    before = C.own_precision()
    C.set_precision(number)
    try:
        yield
    finally:
        C.set_precision(before)


def get_precision() -> Precision:
    """What ``torch.tpu.precision`` gives."""
    return Precision(_VALUES[C.precision()])


def set_precision(value: str | None) -> None:
    """What ``torch.tpu.precision = value`` does."""
    C.set_precision(_number(value))
