"""What the text of a captured program tells, before any compiler has seen it."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter

_TENSOR = r"tensor<((?:\d+x)*)(\w+(?:<\w+>)?)>"
_PRODUCT = re.compile(
    rf'"stablehlo\.(dot_general|convolution)".* : \({_TENSOR}, {_TENSOR}\) -> {_TENSOR}'
)
_CONTRACTED = re.compile(r"lhs_contracting_dimensions = \[([\d, ]*)\]")
_KERNEL = re.compile(r"x\[([^\]]*)\]->")
_DILATION = re.compile(r"lhs_dilation = array<i64: ([\d, ]*)>")
_GROUPS = re.compile(r"feature_group_count = (\d+)")
_RESULT = re.compile(rf'"stablehlo\.(\w+)"\(.* -> {_TENSOR} loc\("([^"]+)"\)')
_ARGUMENTS = re.compile(r"func\.func public @main\((.*)\) -> ")
# They are computed where they are used.
_NO_MEMORY = {"broadcast_in_dim", "iota", "constant", "reshape", "convert", "compare", "transpose"}
_COMPLEX = {"complex<f32>": 8, "complex<f64>": 16}


@dataclasses.dataclass(frozen=True)
class Result:
    """Results of one type."""

    type: str
    """Such as "512x4096xf32"."""
    bytes: int
    """Of one."""
    count: int
    operators: tuple[str, ...]
    """Who computes them, the most frequent first."""


def is_training_step(text: str) -> bool:
    return text.startswith("module @train_step")


def model_flops(text: str) -> int:
    """The flops of the model: those of the matrix products and convolutions that the program asks
    for, a multiply and an add being two. Of a training step forward and backward, so for a
    transformer about 6 * parameters * tokens, and 2 in forward; attention comes on top.

    Elementwise operators are not in it, nor what the compiler computes twice; what the model itself
    computes twice is (activation checkpointing). A float32 product counts once, though the chip
    makes it of up to six. A product in a loop counts once.
    """
    flops = 0
    for line in text.splitlines():
        product = _PRODUCT.search(line)
        if product is None:
            continue
        kind, left, _, right, _, result, _ = product.groups()
        if kind == "dot_general":
            contracted = _CONTRACTED.search(line)
            terms = math.prod(_sizes(left)[axis] for axis in _ints(contracted)) * math.prod(
                _sizes(result)
            )
        else:
            terms = _convolution_terms(line, _sizes(left), _sizes(right), _sizes(result))
        flops += 2 * terms
    return flops


def _convolution_terms(line: str, left: list[int], right: list[int], result: list[int]) -> int:
    roles = _KERNEL.search(line)[1].split(", ")
    if math.prod(_ints(_DILATION.search(line))) > 1:
        # A transposed convolution: of each element of the operand, between which lie zeros.
        groups = int(_GROUPS.search(line)[1])
        return math.prod(left) * math.prod(right) // (right[roles.index("i")] * groups)
    return math.prod(result) * math.prod(right) // right[roles.index("o")]


def largest_results(text: str, count: int = 5) -> list[Result]:
    """The largest values that operators compute. The compiler may fuse some of them away."""
    found: dict[tuple[int, str], Counter[str]] = {}
    for operation, sizes, dtype, operator in _RESULT.findall(text):
        if operation not in _NO_MEMORY:
            found.setdefault((_size(sizes, dtype), sizes + dtype), Counter())[operator] += 1
    largest = sorted(found.items(), reverse=True)[:count]
    return [
        Result(type_, bytes_, operators.total(), tuple(name for name, _ in operators.most_common()))
        for (bytes_, type_), operators in largest
    ]


def float32_arguments(text: str) -> int:
    """Bytes of the program's float32 inputs."""
    main = _ARGUMENTS.search(text)
    found = re.findall(_TENSOR, main[1]) if main else []
    return sum(_size(sizes, dtype) for sizes, dtype in found if dtype == "f32")


def _ints(found: re.Match[str] | None) -> list[int]:
    """The numbers of a list."""
    return [int(number) for number in found[1].split(",") if number.strip()] if found else []


def _sizes(text: str) -> list[int]:
    return [int(size) for size in text.split("x") if size]


def _size(sizes: str, dtype: str) -> int:
    if dtype in _COMPLEX:
        width = _COMPLEX[dtype]
    elif dtype.startswith("f8"):
        width = 1
    else:  # i1 and smaller floats take a byte
        width = max(int(re.sub(r"\D", "", dtype)) // 8, 1)
    return math.prod(_sizes(sizes)) * width
