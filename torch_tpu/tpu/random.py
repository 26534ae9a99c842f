"""Random number generators of the devices.

Philox with a state of 16 bytes: seed and offset, 64 bits each. Seeding starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from torch_tpu._load import C
from torch_tpu.tpu._utils import _get_device_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


class _DefaultGenerators(Sequence):
    """The default generator of each device, by index. They are made at first use."""

    def __len__(self) -> int:
        return C.device_count()

    def __getitem__(self, index: int) -> torch.Generator:
        if not isinstance(index, int):
            return [self[i] for i in range(*index.indices(len(self)))]
        count = len(self)
        if not -count <= index < count:
            raise IndexError(f"tpu:{index} does not exist: there are {count} tpu devices")
        return C.default_generator(index % count)

    def __iter__(self) -> Iterator[torch.Generator]:
        return (self[i] for i in range(len(self)))


default_generators = _DefaultGenerators()


def _get_generator(device: Any) -> torch.Generator:
    return C.default_generator(_get_device_index(device, optional=True))


def get_rng_state(device: Any = "tpu") -> torch.Tensor:
    """State of a device's default generator: 16 bytes, a uint8 tensor on the CPU."""
    return _get_generator(device).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """States of all devices."""
    return [get_rng_state(i) for i in range(C.device_count())]


def set_rng_state(new_state: torch.Tensor, device: Any = "tpu") -> None:
    """Sets the state of a device's default generator. Raises RuntimeError if it is not 16 bytes."""
    _get_generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seeds the current device's default generator."""
    _get_generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the default generators of all devices, also of those not used yet. torch.manual_seed
    calls it."""
    C.seed_default_generators(int(seed) & 0xFFFF_FFFF_FFFF_FFFF)


def seed() -> int:
    """Seeds the current device's default generator with a random number, and returns it."""
    return _get_generator(None).seed()


def seed_all() -> int:
    """Seeds the default generators of all devices with one random number, and returns it."""
    value = seed()
    manual_seed_all(value)
    return value


def initial_seed() -> int:
    """Seed of the current device's default generator."""
    return _get_generator(None).initial_seed()


def _get_rng_state_offset(device: Any = "tpu") -> int:
    return _get_generator(device).get_offset()


def _set_rng_state_offset(offset: int, device: Any = "tpu") -> None:
    _get_generator(device).set_offset(offset)
