"""Of a program that does not fit: by how much, and what would help."""

from __future__ import annotations

import dataclasses
import re

from torch_tpu.aot.chips import CHIPS
from torch_tpu.aot.units import share, size

_SIZE = r"([\d.]+)\s*([KMGT]?)i?B?"
# libtpu 0.0.52 says the first; XLA says the second.
_MESSAGES = (
    re.compile(rf"\({_SIZE}\) exceeds available HBM \({_SIZE}\)"),
    re.compile(rf"Used {_SIZE} of {_SIZE} hbm"),
)
_ALLOCATION = re.compile(rf"\bSize: {_SIZE}\b(.*?)(?=\bSize: |\Z)", re.DOTALL)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclasses.dataclass(frozen=True)
class Change:
    """Something that helps."""

    text: str
    saves: int | None
    """Bytes of one device; None where they cannot be told."""
    enough: bool
    """Whether the program would fit, by these numbers."""


def needed(message: str) -> tuple[int, int] | None:
    """The bytes of the device's memory that a program needs and those that there are, to the two
    decimals that the compiler's message has. None if it has none, or speaks of other memory."""
    for pattern in _MESSAGES:
        found = pattern.search(message)
        if found:
            return _bytes(found[1], found[2]), _bytes(found[3], found[4])
    return None


def allocations(message: str) -> list[tuple[str, int]]:
    """Operators and bytes of the largest allocations, if the compiler's message lists them."""
    found = []
    for number, unit, rest in _ALLOCATION.findall(message):
        operator = re.search(r'op_name="([^"]*)"', rest)
        found.append((operator[1] if operator else "", _bytes(number, unit)))
    return found


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])


def changes(
    held: dict[str, int],
    needs: int,
    limit: int,
    *,
    float32: int,
    training: bool,
    num_devices: int = 1,
) -> list[Change]:
    """What would make the program fit, or help. First what is enough.

    Args:
        held: bytes of the inputs by kind.
        needs: bytes of all, on one device.
        limit: bytes that one device has.
        float32: bytes of the float32 ones among the inputs.
        training: whether the program is a training step.
        num_devices: how many devices run it.
    """
    found = []

    def add(text: str, saves: int | None = None, enough: bool = False) -> None:
        found.append(Change(text, saves, enough or (saves is not None and needs - saves <= limit)))

    state = sum(held.values()) - held["inputs"]
    gradients = held["parameters"] if training else 0
    # What grows with the batch.
    batch = max(needs - state - gradients, 0)
    room = limit - state - gradients
    if room <= 0:
        kinds = "parameters, optimizer and gradients" if training else "parameters"
        add(
            f"no smaller batch is enough: {kinds} alone take {size(state + gradients)}, "
            f"{size(-room)} more than there is",
        )
    larger = [chip.name for chip in CHIPS.values() if chip.available_bytes >= needs]
    if larger:
        add(f"one device with more memory: {', '.join(larger)}", None, True)
    split = "parameters, gradients, optimizer and batch" if training else "parameters and batch"
    devices = max(-(-needs * num_devices // limit), num_devices + 1)
    add(f"at least {devices} such devices, with {split} split evenly (FSDP)", None, True)
    if 0 < room < batch:
        add(
            f"a batch of at most {share(room, batch)} of this one, if what is neither "
            f"parameter nor state ({size(batch)}) grows with it",
            batch - room,
        )
    if float32 > needs // 50:
        add(
            f"bfloat16 instead of float32 for what the program is given: half of {size(float32)}"
            + (", and of the gradients" if training else ""),
            float32 // 2,
        )
    if held["optimizer"]:
        add("an optimizer without states, such as SGD without momentum", held["optimizer"])
    if training and 4 * batch > needs:
        add(
            "activation checkpointing (torch.utils.checkpoint): activations and other temporaries "
            f"take {size(batch)}"
        )
    return sorted(found, key=lambda change: not change.enough)
