"""A process group of chips that are not there, as rank 0 sees it.

Whatever shards a model over torch.distributed (FSDP2, DTensor, DDP, functional collectives) does so
over this group; its collectives become a part of the captured program, which all chips run.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist

from torch_tpu._load import C

_BACKEND = "tpu_aot"


@dataclasses.dataclass(frozen=True)
class Collective:
    """Collectives of one kind over one group, in one run of the program."""

    kind: str
    """all_gather, all_reduce, reduce_scatter or all_to_all."""
    group: str
    """Description of the group, such as "mesh_dp", the dimension "dp" of a device mesh."""
    group_size: int
    """Devices in a group."""
    count: int
    bytes: int
    """Sum of the whole tensors' bytes: what is gathered, reduced, or dealt out."""

    @property
    def bytes_moved(self) -> int:
        """Bytes that each device sends. In a ring all but one part of n leaves it, (n - 1) / n
        of the tensor; twice for an all_reduce, which is a reduce_scatter and an all_gather."""
        times = 2 if self.kind == "all_reduce" else 1
        return times * self.bytes * (self.group_size - 1) // self.group_size


def _groups(ranks: list[int], world_size: int) -> list[int]:
    """All devices, group after group: the group of these ranks and those like it, which cover the
    world (the other rows or columns of a device mesh).

    Raises:
        ValueError: moved copies of the group don't cover the world.
    """
    left, devices = set(range(world_size)), []
    while left:
        moved = [rank - ranks[0] + min(left) for rank in ranks]
        if not left.issuperset(moved):
            raise ValueError(
                f"the group of the ranks {ranks} cannot be one of several alike that make up "
                f"{world_size} chips: use the dimensions of a device mesh"
            )
        left.difference_update(moved)
        devices += moved
    return devices


def _create(options: Any, _: Any) -> Any:
    world_size = dist.get_world_size() if dist.is_initialized() else options.group_size
    ranks = list(options.global_ranks_in_group) or list(range(world_size))
    return C.abstract_group(options.group_rank, options.group_size, _groups(ranks, world_size))


@contextlib.contextmanager
def world_of(size: int) -> Iterator[None]:
    """Within it this process is rank 0 of `size`. A world that is there already must be one of
    these and have that size.

    Raises:
        RuntimeError: the process is in a group of real processes, or of another size.
    """
    if dist.is_initialized():
        if _BACKEND not in dist.get_backend_config() or dist.get_world_size() != size:
            raise RuntimeError(
                f"torch.distributed is in use already, by {dist.get_backend_config()} with "
                f"{dist.get_world_size()} processes; a program for {size} chips needs a process "
                "of its own"
            )
        yield
        return
    from torch.testing._internal.distributed.fake_pg import FakeStore

    if _BACKEND not in dist.Backend.backend_list:
        dist.Backend.register_backend(_BACKEND, _create, extended_api=True, devices=["tpu", "cpu"])
    dist.init_process_group(_BACKEND, rank=0, world_size=size, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def take_collectives() -> list[Collective]:
    """What was recorded since the last call, summed by kind and group."""
    sums: dict[tuple[str, str, int], tuple[int, int]] = {}
    for kind, group, group_size, size in C.take_collectives():
        count, total = sums.get((kind, group, group_size), (0, 0))
        sums[kind, group, group_size] = count + 1, total + size
    return [Collective(*key, *value) for key, value in sums.items()]
