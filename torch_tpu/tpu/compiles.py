"""Why programs were compiled: ``torch.tpu.explain_compiles``."""

from __future__ import annotations

import dataclasses

from torch_tpu._load import C


@dataclasses.dataclass(frozen=True)
class Compile:
    """One program that was compiled, or loaded from the disk cache."""

    number: int
    """Counted from the start of the process."""
    operators: str
    """The operator, or of a fused program "42 operators: linear (12), add (8), ..."."""
    num_operators: int
    where: str
    """"file:line" of the call that needed the program (of a fused one: that cut it); the innermost
    line that is neither torch's nor torch_tpu's. Empty if there is none."""
    milliseconds: float
    from_disk: bool
    reason: str
    """What differs from the most similar call of the operator before, such as
    "shape of argument 2 (other): [128] -> [129]"."""
    hint: str
    """What helps, or empty."""

    def __str__(self) -> str:
        verb = "loaded" if self.from_disk else "compiled"
        text = f"#{self.number} {verb} {self.operators} in {self.milliseconds:.1f} ms"
        if self.where:
            text += f"\n    at {self.where}"
        text += f"\n    {self.reason}"
        return text + (f"\n    hint: {self.hint}" if self.hint else "")


class Compiles(list[Compile]):
    """A list of :class:`Compile` that prints as a report."""

    def __str__(self) -> str:
        if not self:
            return "nothing was compiled"
        compiled = [c for c in self if not c.from_disk]
        total = sum(c.milliseconds for c in self)
        head = (
            f"{len(compiled)} programs compiled, {len(self) - len(compiled)} loaded from the disk "
            f"cache, {total:.0f} ms in all"
        )
        return "\n".join([head, *map(str, self)])

    __repr__ = __str__


def explain_compiles(last: int | None = None) -> Compiles:
    """Why programs were compiled: a list that prints as a report.

    >>> print(torch.tpu.explain_compiles())
    2 programs compiled, 0 loaded from the disk cache, 31 ms in all
    #1 compiled add in 16.4 ms
        at train.py:12
        the first call of this operator
    #2 compiled add in 14.9 ms
        at train.py:12
        shape of argument 2 (other): [128] -> [129]
        hint: each size is a program of its own: pad sizes that change to a few common ones, ...

    The newest 512 are kept. ``TORCH_TPU_LOG=compiles`` prints each as it happens.

    Args:
        last: only so many, the newest.
    """
    records = [Compile(**record) for record in C.compile_records()]
    return Compiles(records if last is None else records[max(len(records) - last, 0) :])
