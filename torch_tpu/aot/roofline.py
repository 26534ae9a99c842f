"""The least time that a program can take on a chip of published rates."""

from __future__ import annotations

import dataclasses

from torch_tpu.aot.chips import Chip


@dataclasses.dataclass(frozen=True)
class Roofline:
    """Times of one run on one device, in seconds. No time was measured."""

    compute_seconds: float
    """The flops that the compiler counts in the optimized program, at the peak of bfloat16."""
    memory_seconds: float
    """The bytes that the optimized program moves between the chip and its memory, at this device's
    part of the memory's peak. What stays on the chip is not in it. They are read off the program:
    of operators whose traffic depends on values (a scatter) it is the most that they may move."""
    network_seconds: float
    """The bytes that the device sends to others, at the peak of all its links; 0 for a program of
    one device."""
    seconds: float
    """The largest of the three. As far as these counts hold, no run is faster."""
    bound: str
    """Which one it is: "compute", "memory" or "network"."""
    estimated_seconds: float | None
    """The compiler's own estimate: the cycles of the operators, at the chip's clock. They include
    what the peaks do not show, such as the passes of a float32 product; that operators overlap, or
    wait for copies, is not in them. Where the clock is not known, the compiler's "optimal_seconds",
    if it is positive."""
    mfu_at_most: float
    """Model flops utilization, a share of 1: the flops of the model (see
    :func:`torch_tpu.aot.program_text.model_flops`) at the peak of bfloat16, over the longest of the
    times above. A bound as far as these hold: the compiler's is an estimate."""


def roofline(
    chip: Chip,
    *,
    flops: float,
    hbm_bytes: float,
    model_flops: float,
    sent_bytes: int = 0,
    cycles: int = 0,
    optimal_seconds: float | None = None,
) -> Roofline:
    """The roofline of a program, on one device of the chip.

    Args:
        flops: of the optimized program, on one device; so `hbm_bytes`.
        model_flops: one device's part of the model's.
        sent_bytes: what one device sends to others.
        cycles: sum of the compiler's estimates; 0 if there are none.
        optimal_seconds: the compiler's; it is negative where the program has calls of which the
            compiler knows no cost.
    """
    compute = max(flops, 0.0) / chip.device_flops
    memory = hbm_bytes / chip.device_bandwidth
    # The published rate is that of both directions.
    network = sent_bytes / (chip.ici_bandwidth / chip.devices / 2)
    times = {"compute": compute, "memory": memory, "network": network}
    bound = max(times, key=times.__getitem__)
    estimate = None
    if cycles and chip.clock is not None:
        estimate = cycles / chip.clock
    elif optimal_seconds is not None and optimal_seconds > 0:
        estimate = optimal_seconds
    longest = max(times[bound], estimate or 0.0)
    return Roofline(
        compute_seconds=compute,
        memory_seconds=memory,
        network_seconds=network,
        seconds=times[bound],
        bound=bound,
        estimated_seconds=estimate,
        mfu_at_most=min(model_flops / chip.device_flops / longest, 1.0) if longest else 0.0,
    )
