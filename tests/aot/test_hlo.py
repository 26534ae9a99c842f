"""The reader of optimized programs, on programs that are written here byte by byte."""

import pytest

from torch_tpu.aot import hlo

S32, F32 = 4, 11
ON_CHIP = 1


def varint(number):
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number, value):
    """A field of a message: an integer, or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def shape(dtype, sizes, space=0):
    dimensions = b"".join(varint(size) for size in sizes)
    return field(2, dtype) + field(3, dimensions) + field(5, field(8, space) if space else b"")


def tuple_shape(*shapes):
    return field(2, 13) + b"".join(field(4, part) for part in shapes)


def instruction(identity, opcode, shape_, operands=(), *, name="", cycles=None, calls=(), more=b""):
    out = field(2, opcode.encode()) + field(3, shape_) + field(35, identity) + more
    if name:
        out += field(7, field(2, name.encode()))
    if operands:
        out += field(36, b"".join(map(varint, operands)))
    if calls:
        out += field(38, b"".join(map(varint, calls)))
    if cycles is not None:
        out += field(43, b'{"window_config":{"estimated_cycles":"%d"}}' % cycles)
    return out


def computation(identity, root, *instructions):
    return field(5, identity) + field(6, root) + b"".join(field(2, x) for x in instructions)


def module(entry, *computations):
    return b"".join(field(3, x) for x in computations) + field(6, entry)


def constant(identity, number):
    literal = field(1, shape(S32, ())) + field(4, varint(number))
    return instruction(identity, "constant", shape(S32, ()), more=field(8, literal))


def test_cycles_are_summed_by_operator():
    x = shape(F32, (8, 128))
    main = computation(
        1,
        14,
        instruction(10, "parameter", x),
        instruction(11, "fusion", x, [10], name="aten::mm", cycles=70, calls=[2]),
        instruction(12, "add", x, [11, 10], name="aten::add.Tensor", cycles=20),
        instruction(13, "fusion", x, [12], name="aten::mm", cycles=5, calls=[2]),
        instruction(14, "copy", x, [13]),
    )
    fused = computation(
        2,
        21,
        instruction(20, "parameter", x),
        instruction(21, "negate", x, [20], name="aten::neg", cycles=1000),  # its fusion's
    )
    costs = hlo.costs(("hlo", module(1, main, fused)))
    size = 8 * 128 * 4
    assert costs.operators == (
        hlo.Operator("aten::mm", instructions=2, cycles=75, hbm_bytes=4 * size),
        hlo.Operator("aten::add.Tensor", instructions=1, cycles=20, hbm_bytes=3 * size),
        hlo.Operator(hlo.COMPILER, instructions=1, cycles=0, hbm_bytes=2 * size),
    )
    assert costs.cycles == 95
    assert costs.hbm_bytes == 9 * size


def test_memory_on_the_chip_and_parts_count_as_what_they_are():
    whole, part = shape(F32, (1000,)), shape(F32, (10,))
    near = shape(F32, (1000,), ON_CHIP)
    main = computation(
        1,
        14,
        instruction(10, "parameter", whole),
        instruction(11, "copy-start", tuple_shape(near, whole, shape(8, ())), [10]),
        instruction(12, "copy-done", near, [11]),
        instruction(13, "negate", near, [12], name="aten::neg", cycles=1),
        instruction(14, "fusion", part, [10, 13], name="aten::slice", cycles=1, calls=[2]),
    )
    fused = computation(
        2,
        23,
        instruction(20, "parameter", whole),
        instruction(21, "parameter", near, more=field(9, 1)),
        instruction(22, "slice", part, [20]),
        instruction(23, "add", part, [22, 21]),
    )
    costs = hlo.costs(("hlo_with_config", field(1, module(1, main, fused)) + field(2, b"")))
    moved = {operator.name: operator.hbm_bytes for operator in costs.operators}
    # The copy reads 1000; the fusion reads 10 of them and writes 10.
    assert moved == {hlo.COMPILER: 4000, "aten::slice": 80, "aten::neg": 0}


@pytest.mark.parametrize(("direction", "times", "unknown"), [(b"LT", 4, 0), (b"GT", 1, 1)])
def test_a_loop_counts_as_often_as_it_runs(direction, times, unknown):
    scalar = shape(S32, ())
    state = tuple_shape(scalar)
    main = computation(
        1,
        12,
        constant(10, 3),
        instruction(11, "tuple", state, [10]),
        instruction(12, "while", state, [11], calls=[2, 3]),
    )
    body = computation(
        2,
        25,
        instruction(20, "parameter", state),
        instruction(21, "get-tuple-element", scalar, [20]),
        constant(22, 2),
        instruction(23, "add", scalar, [21, 22]),
        instruction(24, "tanh", shape(F32, (4,), ON_CHIP), [], name="aten::tanh", cycles=100),
        instruction(25, "tuple", state, [23]),
    )
    condition = computation(
        3,
        33,
        instruction(30, "parameter", state),
        instruction(31, "get-tuple-element", scalar, [30]),
        constant(32, 10),
        instruction(33, "compare", shape(1, ()), [31, 32], more=field(63, direction)),
    )
    costs = hlo.costs(("hlo", module(1, main, body, condition)))
    tanh = next(x for x in costs.operators if x.name == "aten::tanh")
    assert tanh.cycles == 100 * times  # at 3, 5, 7 and 9
    assert tanh.instructions == 1
    assert costs.unknown_loops == unknown


@pytest.mark.parametrize("size", [1, 20, 60])
def test_a_damaged_program_is_an_error(size):
    x = shape(F32, (8,))
    main = computation(
        1, 11, instruction(10, "parameter", x), instruction(11, "negate", x, [10], cycles=7)
    )
    with pytest.raises(ValueError):
        hlo.costs(("hlo", module(1, main)[:size]))
    with pytest.raises(ValueError, match="mlir"):
        hlo.costs(("mlir", b""))
