"""Reads the optimized program: what the compiler thinks that each operator costs.

The program is a serialized HloModuleProto (xla/service/hlo.proto, xla/xla_data.proto). The numbers
of the fields that are read here are those of these files, and have not changed since they exist.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

# Operators without a name: what the compiler adds, such as copies between memories.
COMPILER = "(the compiler's own)"


@dataclasses.dataclass(frozen=True)
class Operator:
    """The part of one operator in a run of the program. A fused kernel of several operators counts
    for the one that the compiler names it after."""

    name: str
    """As ATen's, such as "aten::mm"."""
    instructions: int
    """Instructions of the program with a cost; those of a loop count once."""
    cycles: int
    """The compiler's estimate."""
    hbm_bytes: int
    """Bytes that these instructions read from and write to the device's memory."""


@dataclasses.dataclass(frozen=True)
class Costs:
    """Costs of a run of an optimized program."""

    operators: tuple[Operator, ...]
    """Most cycles first."""
    unknown_loops: int
    """Loops of which the program does not show how often they run. Their bodies count once."""

    @property
    def cycles(self) -> int:
        return sum(operator.cycles for operator in self.operators)

    @property
    def hbm_bytes(self) -> int:
        return sum(operator.hbm_bytes for operator in self.operators)


def costs(optimized: tuple[str, bytes]) -> Costs:
    """The costs of a program in the format that PJRT calls "hlo" or "hlo_with_config".

    Raises:
        ValueError: the format is another one, or the program is damaged.
    """
    format_, code = optimized
    if format_ not in ("hlo", "hlo_with_config"):
        raise ValueError(f"an optimized program of the format {format_!r}")
    try:
        if format_ == "hlo_with_config":
            code = _first(code, 1)
        return _Walk(code).costs()
    except (IndexError, KeyError, TypeError) as error:
        raise ValueError(f"the optimized program is damaged: {error!r}") from error


# The wire format of protobuf.


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers and values of the fields of a message: int, or bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        match tag & 7:
            case 0:
                value, position = _varint(data, position)
            case 1 | 5 as kind:
                size = 8 if kind == 1 else 4
                value, position = data[position : position + size], position + size
            case 2:
                size, position = _varint(data, position)
                value, position = data[position : position + size], position + size
            case kind:
                raise ValueError(f"a field of the wire type {kind}")
        if position > len(data):
            raise ValueError("a field ends after its message")
        yield tag >> 3, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, position


def _numbers(value: int | bytes) -> list[int]:
    """Of a repeated integer field, packed or not. Negative ones have 64 bits."""
    if isinstance(value, int):
        found = [value]
    else:
        found, position = [], 0
        while position < len(value):
            number, position = _varint(value, position)
            found.append(number)
    return [number - 2**64 if number >= 2**63 else number for number in found]


def _first(message: bytes, number: int) -> Any:
    for found, value in _fields(message):
        if found == number:
            return value
    raise KeyError(number)


# Bits of an element by PrimitiveType; tokens and the like have none.
_BITS = (
    {1: 8, 2: 8, 3: 16, 4: 32, 5: 64, 6: 8, 7: 16, 8: 32, 9: 64, 10: 16, 11: 32, 12: 64}
    | {15: 64, 16: 16, 18: 128, 21: 4, 22: 4, 26: 2, 27: 2, 30: 1, 31: 1, 32: 4}
    | dict.fromkeys((19, 20, 23, 24, 25, 28, 29, 33), 8)
)


class _Shape:
    """A ShapeProto: sizes without the padding of tiles."""

    def __init__(self, message: bytes) -> None:
        elements, bits, space = 1, 0, 0
        self.parts: list[_Shape] = []
        for number, value in _fields(message):
            if number == 2:
                bits = _BITS.get(value, 0)
            elif number == 3:
                for size in _numbers(value):
                    elements *= size
            elif number == 4:
                self.parts.append(_Shape(value))
            elif number == 5:
                space = next((v for n, v in _fields(value) if n == 8), 0)
        whole = (elements * bits + 7) // 8
        self.bytes = sum(part.bytes for part in self.parts) if self.parts else whole
        # Memory space 0 is the device's memory; the others lie on the chip.
        if self.parts:
            self.hbm = sum(part.hbm for part in self.parts)
        else:
            self.hbm = whole if space == 0 else 0


class _Instruction:
    def __init__(self, message: bytes) -> None:
        self.operator = COMPILER
        self.operands: list[int] = []
        self.calls: list[int] = []
        self.cycles = self.parameter = self.tuple_index = 0
        self.literal = self.direction = self._shape = b""
        for number, value in _fields(message):
            match number:
                case 2:
                    self.opcode = value.decode()
                case 3:
                    self._shape = value
                case 7:
                    for inner, text in _fields(value):
                        if inner == 2 and text:
                            self.operator = text.decode()
                case 8:
                    self.literal = value
                case 9:
                    self.parameter = value
                case 13:
                    self.tuple_index = value
                case 35:
                    self.id = value
                case 36:
                    self.operands += _numbers(value)
                case 38:
                    self.calls += _numbers(value)
                case 43:
                    found = re.search(rb'"estimated_cycles":"(\d+)"', value)
                    self.cycles = int(found[1]) if found else 0
                case 63:
                    self.direction = value

    @cached_property
    def shape(self) -> _Shape:
        return _Shape(self._shape)

    @property
    def number(self) -> int | None:
        """Of a scalar integer constant."""
        if self.opcode == "constant":
            for field, value in _fields(self.literal):
                if field in (4, 5):  # s32s, s64s
                    return _numbers(value)[0]
        return None


class _Computation:
    def __init__(self, message: bytes) -> None:
        self.instructions: dict[int, _Instruction] = {}
        for number, value in _fields(message):
            if number == 2:
                instruction = _Instruction(value)
                self.instructions[instruction.id] = instruction
            elif number == 5:
                self.id = value
            elif number == 6:
                self._root = value

    @property
    def root(self) -> _Instruction:
        return self.instructions[self._root]

    @cached_property
    def users(self) -> dict[int, list[tuple[_Instruction, int]]]:
        """Who takes an instruction's result, as which operand."""
        users: dict[int, list[tuple[_Instruction, int]]] = {}
        for instruction in self.instructions.values():
            for position, operand in enumerate(instruction.operands):
                users.setdefault(operand, []).append((instruction, position))
        return users

    def operands(self, instruction: _Instruction) -> list[_Instruction]:
        return [self.instructions[operand] for operand in instruction.operands]

    def parameter(self, index: int) -> _Instruction:
        return next(
            x
            for x in self.instructions.values()
            if x.opcode == "parameter" and x.parameter == index
        )


# They move nothing, or their computations and their partners do.
_FREE = {"parameter", "constant", "get-tuple-element", "tuple", "bitcast", "after-all", "while"}
_FREE |= {"conditional", "call", "async-start", "async-update", "opt-barrier"}
_DESCEND = {"while", "conditional", "call", "async-start"}
_PARTIAL = {"slice", "dynamic-slice", "gather"}


class _Walk:
    def __init__(self, module: bytes) -> None:
        self.computations: dict[int, _Computation] = {}
        for number, value in _fields(module):
            if number == 3:
                computation = _Computation(value)
                self.computations[computation.id] = computation
            elif number == 6:
                self.entry = value
        self.totals: dict[str, list[int]] = {}
        self.unknown_loops = 0

    def costs(self) -> Costs:
        self._add(self.computations[self.entry], 1)
        found = [Operator(name, *total) for name, total in self.totals.items()]
        found.sort(key=lambda operator: (-operator.cycles, -operator.hbm_bytes, operator.name))
        return Costs(tuple(found), self.unknown_loops)

    def _add(self, computation: _Computation, times: int) -> None:
        for instruction in computation.instructions.values():
            moved = self._moved(computation, instruction)
            if instruction.cycles or moved:
                total = self.totals.setdefault(instruction.operator, [0, 0, 0])
                total[0] += 1
                total[1] += times * instruction.cycles
                total[2] += times * moved
            if instruction.opcode in _DESCEND:
                inner = times
                if instruction.opcode == "while":
                    inner *= self._trips(computation, instruction)
                for called in instruction.calls:
                    self._add(self.computations[called], inner)

    def _trips(self, computation: _Computation, loop: _Instruction) -> int:
        """How often a loop runs that counts from a constant to a constant; else 1."""
        body, condition = (self.computations[called] for called in loop.calls)
        test = condition.root
        if test.opcode == "compare" and test.direction == b"LT":
            counter, end = condition.operands(test)
            index = counter.tuple_index
            start = computation.operands(loop)[0]
            step = body.root
            if start.opcode == step.opcode == "tuple" and counter.opcode == "get-tuple-element":
                first = _constant(computation, computation.operands(start)[index])
                added = body.operands(step)[index]
                by = [_constant(body, x) for x in body.operands(added) if x.opcode != "parameter"]
                steps = [number for number in by if number is not None]
                if added.opcode == "add" and len(steps) == 1 and steps[0] > 0:
                    last = end.number
                    if first is not None and last is not None and last > first:
                        return -((first - last) // steps[0])
        self.unknown_loops += 1
        return 1

    def _moved(self, computation: _Computation, x: _Instruction) -> int:
        """Bytes between the device's memory and the chip."""
        if x.opcode in _FREE or x.opcode.endswith("-done"):
            return 0
        operands = computation.operands(x)
        if x.opcode == "copy-start":
            return operands[0].shape.hbm + x.shape.parts[0].hbm
        read = sum(self._read(x, index, operand.shape) for index, operand in enumerate(operands))
        if x.opcode == "custom-call" and not operands:
            return 0  # room that others write to
        return read + self._written(computation, x)

    def _read(self, x: _Instruction, index: int, shape: _Shape) -> int:
        if x.opcode == "fusion":
            fused = self.computations[x.calls[0]]
            return min(shape.hbm, self._used(fused, fused.parameter(index)))
        if index == 0 and x.opcode in _PARTIAL:
            return min(shape.hbm, x.shape.bytes)
        if index == 0 and x.opcode == "dynamic-update-slice":
            return 0
        return shape.hbm

    def _used(self, fused: _Computation, value: _Instruction) -> int:
        """Bytes of a value that a fused computation looks at."""
        used = value.shape.bytes if value is fused.root else 0
        for user, index in fused.users.get(value.id, []):
            if user.opcode == "bitcast":
                used += self._used(fused, user)
            elif user.opcode == "fusion":
                inner = self.computations[user.calls[0]]
                used += self._used(inner, inner.parameter(index))
            elif index == 0 and user.opcode in _PARTIAL:
                used += user.shape.bytes
            elif not (index == 0 and user.opcode == "dynamic-update-slice"):
                used += value.shape.bytes
        return min(used, value.shape.bytes)

    def _written(self, computation: _Computation, x: _Instruction) -> int:
        if x.opcode == "dynamic-update-slice":
            return min(x.shape.hbm, computation.operands(x)[1].shape.bytes)
        if x.opcode != "fusion":
            return x.shape.hbm
        fused = self.computations[x.calls[0]]
        if not x.shape.parts:
            return min(x.shape.hbm, self._result(fused, fused.root))
        if fused.root.opcode != "tuple":
            return x.shape.hbm
        results = zip(x.shape.parts, fused.operands(fused.root), strict=True)
        return sum(min(shape.hbm, self._result(fused, root)) for shape, root in results)

    def _result(self, fused: _Computation, root: _Instruction) -> int:
        """Bytes that a fused computation makes for a result: of one in place, the changed part."""
        while root.opcode == "bitcast":
            root = fused.operands(root)[0]
        if root.opcode == "dynamic-update-slice":
            return fused.operands(root)[1].shape.bytes
        return root.shape.bytes


def _constant(computation: _Computation, value: _Instruction) -> int | None:
    """The number behind copies, if it is one."""
    while value.opcode == "copy":
        value = computation.operands(value)[0]
    return value.number
