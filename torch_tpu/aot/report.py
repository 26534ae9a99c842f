"""What the compiler says about a program: as an object, as text, as JSON and as a picture."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from torch_tpu.aot import plot, program_text, shortage
from torch_tpu.aot.capture import Program
from torch_tpu.aot.chips import chip_of
from torch_tpu.aot.hlo import Costs, Operator
from torch_tpu.aot.program_text import Result
from torch_tpu.aot.roofline import Roofline, roofline
from torch_tpu.aot.shortage import Change
from torch_tpu.aot.units import scaled, seconds, share, size
from torch_tpu.aot.world import Collective

NOTHING_RAN = "Compiled by libtpu; nothing here ran on a TPU: no time was measured."
_OPERATORS_SHOWN = 8


@dataclasses.dataclass(frozen=True)
class Compiled:
    """What the TPU's compiler says. Sizes in bytes, of one device."""

    topology: str
    device_kind: str
    num_devices: int
    """Devices of the topology."""
    run_on: int
    """Devices that run the program: 1, or all of the topology."""
    fits: bool
    problem: str
    """Why it does not fit, in the compiler's words; empty if it does."""
    memory_limit: int | None
    """What the compiler lets a program use of a device's memory."""
    needs: int | None
    """What the program needs of it: the sum of `parts`. If it does not fit, the compiler's number,
    which has two decimals; None if its message has none."""
    parts: dict[str, int]
    """`needs` by part: parameters, buffers, optimizer, inputs, "other arguments" (such as seeds,
    and padding), outputs (those that take the place of no argument), temporaries (activations,
    and in a training step gradients), program. Of a program that does not fit, the compiler tells
    no more than the sum: what is not held is in "temporaries, outputs"."""
    memory: dict[str, int]
    """The compiler's own: arguments, outputs, alias (outputs in the place of arguments),
    temporaries, generated_code, and peak, which counts memory on the chip too, so that it is no
    part of `needs`. Empty if it does not fit."""
    held: dict[str, int]
    """Bytes of the inputs by kind; see :class:`Program`."""
    model_flops: int
    """See :func:`torch_tpu.aot.program_text.model_flops`."""
    flops: float | None
    """Of the optimized program, as the compiler counts them."""
    bytes_accessed: float | None
    """The compiler's count: what each instruction reads and writes, on the chip or not."""
    optimal_seconds: float | None
    """The compiler's estimate, by its peaks; None where it has none."""
    costs: Costs | None
    """Cycles and traffic by operator, in the compiler's estimate. None if it does not fit, or if
    the optimized program cannot be read."""
    costs_problem: str
    """Why it cannot be read; empty if it was."""
    roofline: Roofline | None
    """None where `costs` is."""
    collectives: list[Collective]
    """Of a program for several devices: what they exchange in one run."""
    largest: list[Result]
    """If it does not fit: the largest values that operators compute."""
    changes: list[Change]
    """If it does not fit: what would help, what is enough first."""
    executable: bytes = dataclasses.field(repr=False, default=b"")
    """The serialized program, for a TPU of this kind and the same libtpu."""

    @property
    def operators(self) -> tuple[Operator, ...]:
        """The most costly first."""
        return self.costs.operators if self.costs is not None else ()

    def __str__(self) -> str:
        one = f"one of {self.num_devices} devices" if self.run_on == 1 else f"{self.run_on} devices"
        device = f"{self.device_kind}, {one}"
        lines = [self.verdict(), f"{device}. {NOTHING_RAN}", ""]
        lines += self._memory_lines() + self._network_lines()
        if self.fits:
            lines += self._time_lines() + self._operator_lines()
        else:
            lines += self._shortage_lines()
        return "\n".join(lines)

    def verdict(self) -> str:
        """In one line."""
        on = "on one device" if self.run_on == 1 else f"on each of {self.run_on} devices"
        if self.fits:
            of = ""
            if self.memory_limit:
                of = f" of {size(self.memory_limit)} ({share(self.needs, self.memory_limit)})"
            return f"{self.topology}: FITS. Needs {size(self.needs)}{of} {on}"
        if self.needs is None or self.memory_limit is None:
            return f"{self.topology}: DOES NOT FIT. {self.problem}"
        return (
            f"{self.topology}: DOES NOT FIT. Needs {size(self.needs)} {on}, "
            f"{size(self.needs - self.memory_limit)} more than its {size(self.memory_limit)}"
        )

    def plot(self, path: str | Path) -> None:
        """Writes a picture (SVG) of the memory of one device by part.

        Raises:
            OSError: the file cannot be written.
        """
        parts = {name: bytes_ for name, bytes_ in self.parts.items() if bytes_ > 0}
        picture = plot.memory(self.verdict(), parts, self.memory_limit, NOTHING_RAN)
        Path(path).write_text(picture)

    def to_json(self) -> dict[str, Any]:
        """All but the executable; and "chip", the published figures."""
        values = dataclasses.asdict(self)
        del values["executable"]
        values["bytes_sent"] = self.bytes_sent
        for value, collective in zip(values["collectives"], self.collectives, strict=True):
            value["bytes_moved"] = collective.bytes_moved
        values["chip"] = dataclasses.asdict(chip_of(self.topology))
        if self.costs is not None:
            values["costs"] |= {"cycles": self.costs.cycles, "hbm_bytes": self.costs.hbm_bytes}
        return values

    def _memory_lines(self) -> list[str]:
        whole = self.memory_limit or self.needs or sum(self.parts.values())
        rows = [
            (name, size(bytes_), share(bytes_, whole))
            for name, bytes_ in self.parts.items()
            if bytes_ > 0
        ]
        return ["Memory of one device", *_table(rows), ""]

    @property
    def bytes_sent(self) -> int:
        """What one device sends to others in one run."""
        return sum(x.bytes_moved for x in self.collectives)

    def _network_lines(self) -> list[str]:
        if not self.collectives:
            return []
        rows = [("", "times", "whole", "sent", "over")]
        for x in sorted(self.collectives, key=lambda x: -x.bytes_moved):
            over = f"{x.group_size} devices ({x.group})"
            rows.append((x.kind, str(x.count), size(x.bytes), size(x.bytes_moved), over))
        return ["Between devices, what each sends in a ring", *_table(rows, left=(4,)), ""]

    def _time_lines(self) -> list[str]:
        line, chip = self.roofline, chip_of(self.topology)
        if line is None or self.costs is None:
            return [f"The optimized program could not be read: {self.costs_problem}"]
        rows = [
            (
                "at peak rates",
                seconds(line.seconds),
                f"{line.bound}-bound",
            ),
            (
                "  compute",
                seconds(line.compute_seconds),
                f"{scaled(self.flops or 0, 'flop')} at {scaled(chip.device_flops, 'flop/s')}",
            ),
            (
                "  memory",
                seconds(line.memory_seconds),
                f"{scaled(self.costs.hbm_bytes, 'B')} at {scaled(chip.device_bandwidth, 'B/s')}",
            ),
        ]
        if self.run_on > 1:
            rows.append(
                (
                    "  network",
                    seconds(line.network_seconds),
                    f"{scaled(self.bytes_sent, 'B')} sent, at the peak of all links",
                )
            )
        if line.estimated_seconds is not None:
            how = "its optimal_seconds"
            if chip.clock is not None:
                how = f"{self.costs.cycles:,} cycles at {scaled(chip.clock, 'Hz')}"
            rows.append(("by the compiler", seconds(line.estimated_seconds), how))
        rows.append(
            (
                "MFU at most",
                share(line.mfu_at_most, 1),
                f"{scaled(self.model_flops, 'flop')} of the model",
            )
        )
        return ["Time of one run", *_table(rows, left=(2,)), ""]

    def _operator_lines(self) -> list[str]:
        if not self.operators or self.costs is None:
            return []
        shown = [x for x in self.operators if x.cycles][:_OPERATORS_SHOWN]
        rest = self.operators[len(shown) :]
        rows = [("", "cycles", "", "memory", "kernels")]
        for name, operators in (
            *((x.name, (x,)) for x in shown),
            ("1 other" if len(rest) == 1 else f"{len(rest)} others", rest),
        ):
            cycles = sum(x.cycles for x in operators)
            rows.append(
                (
                    name,
                    f"{cycles:,}",
                    share(cycles, self.costs.cycles),
                    size(sum(x.hbm_bytes for x in operators)),
                    str(sum(x.instructions for x in operators)),
                )
            )
        lines = ["Operators that cost most", *_table(rows if rest else rows[:-1])]
        if self.costs.unknown_loops:
            lines.append(f"  {self.costs.unknown_loops} loops count once")
        return lines

    def _shortage_lines(self) -> list[str]:
        lines = []
        if self.largest:
            rows = [
                (x.type, size(x.bytes), f"{x.count} by {_names(x.operators)}") for x in self.largest
            ]
            lines += ["Largest results of operators", *_table(rows, left=(2,)), ""]
        if self.changes:
            lines.append("What would help")
            for change in self.changes:
                saves = "" if change.saves is None else f"; saves {size(change.saves)}"
                enough = "enough: " if change.enough else ""
                lines.append(f"  - {enough}{change.text}{saves}")
        return lines


def _names(operators: tuple[str, ...]) -> str:
    more = len(operators) - 2
    return ", ".join(operators[:2]) + (f" and {more} more" if more > 0 else "")


def _table(rows: list[tuple[str, ...]], left: tuple[int, ...] = ()) -> list[str]:
    """Rows with aligned columns: the first to the left, and those named; others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if index == 0 or index in left else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append(("  " + "  ".join(cells)).rstrip())
    return lines


def compiled(program: Program, topology: str, made: dict[str, Any]) -> Compiled:
    """The report of what the compiler made, or of a program that does not fit."""
    chip = chip_of(topology)
    message = made["error"][1] if "error" in made else ""
    fits = not message
    limit = made["topology"]["memory_bytes"]
    if limit is not None:
        # Of v4, whose chips have two devices, the plugin tells the memory of the chip.
        limit = min(limit, chip.available_bytes)
    memory = made.get("memory", {})
    estimates = made.get("costs", {})
    operators = made.get("operators")
    optimal = estimates.get("optimal_seconds")
    model_flops = program_text.model_flops(program.text)
    parts, needs, largest, changes, line = dict(program.held), None, [], [], None
    if fits:
        parts |= {
            "other arguments": max(memory["arguments"] - sum(program.held.values()), 0),
            "outputs": memory["outputs"] - memory["alias"],
            "temporaries": memory["temporaries"],
            "program": memory["generated_code"],
        }
        needs = sum(parts.values())
    else:
        found = shortage.needed(message)
        largest = [
            Result("allocation", bytes_, 1, (operator,))
            for operator, bytes_ in shortage.allocations(message)
        ] or program_text.largest_results(program.text)
        if found is not None:
            needs, limit = found[0], limit or found[1]
            parts["temporaries, outputs"] = max(needs - sum(program.held.values()), 0)
            changes = shortage.changes(
                program.held,
                needs,
                limit,
                float32=program_text.float32_arguments(program.text),
                training=program_text.is_training_step(program.text),
                num_devices=program.num_devices,
            )
    if operators is not None and "flops" in estimates:
        line = roofline(
            chip,
            flops=estimates["flops"],
            hbm_bytes=operators.hbm_bytes,
            model_flops=model_flops,
            sent_bytes=sum(x.bytes_moved for x in program.collectives),
            cycles=operators.cycles,
            optimal_seconds=optimal,
        )
    return Compiled(
        topology=topology,
        device_kind=made["topology"]["device_kind"],
        num_devices=made["topology"]["num_devices"],
        run_on=program.num_devices,
        fits=fits,
        problem=message.partition("\n")[0],
        memory_limit=limit,
        needs=needs,
        parts=parts,
        memory=memory,
        held=program.held,
        model_flops=model_flops,
        flops=estimates.get("flops"),
        bytes_accessed=estimates.get("bytes accessed"),
        optimal_seconds=optimal if optimal is not None and optimal > 0 else None,
        costs=operators,
        costs_problem=made.get("no_operators", ""),
        roofline=line,
        collectives=list(program.collectives),
        largest=largest,
        changes=changes,
        executable=made.get("executable", b""),
    )
