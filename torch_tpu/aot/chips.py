"""What Google publishes about its chips, and what libtpu makes of them."""

from __future__ import annotations

import dataclasses

_DOCS = "https://docs.cloud.google.com/tpu/docs/"


@dataclasses.dataclass(frozen=True)
class Chip:
    """Published figures of one chip, and how libtpu divides it into devices."""

    name: str
    """As in the names of topologies."""
    peak_flops: float
    """Flop/s of bfloat16 products; a multiply and an add are two."""
    hbm_bytes: int
    hbm_bandwidth: float
    """Bytes/s."""
    ici_bandwidth: float
    """Bytes/s to other chips, over all links, both directions together."""
    devices: int
    """Devices that libtpu makes of one chip."""
    available_bytes: int
    """What the compiler lets a program use of the memory of one device. Not published: libtpu
    0.0.52 says it when a program does not fit."""
    clock: float | None
    """Cycles/s, as the comment on the table derives it; None where it cannot be."""
    source: str

    @property
    def device_flops(self) -> float:
        """Flop/s of one device."""
        return self.peak_flops / self.devices

    @property
    def device_bandwidth(self) -> float:
        """Bytes/s between one device and its memory."""
        return self.hbm_bandwidth / self.devices


# No page gives a clock (the paper does for v4): it is that at which the matrix units have the
# published peak, units x side^2 x 2 flops a cycle. The pages of v4 and v5p say 8 of 128x128, of v5e
# 4 of 128x128. That of v6e has said 4 and says 2; units of 256x256 there have the peak at 1.75 or
# 3.5 GHz, and at more than 2.5 GHz the compiler's cycles for a large product would beat the peak.
CHIPS = {
    chip.name: chip
    for chip in (
        Chip(
            "v4",
            peak_flops=275e12,
            hbm_bytes=32 * 2**30,
            hbm_bandwidth=1200e9,
            # 6 links of 50 GB/s in each direction: Jouppi et al., "TPU v4", ISCA 2023, table 4.
            ici_bandwidth=600e9,
            devices=2,
            available_bytes=32745971712 // 2,
            clock=1.05e9,
            source=f"{_DOCS}v4, https://arxiv.org/abs/2304.01433",
        ),
        Chip(
            "v5e",
            peak_flops=197e12,
            hbm_bytes=16 * 2**30,
            hbm_bandwidth=819e9,
            ici_bandwidth=400e9,
            devices=1,
            available_bytes=16909336064,
            clock=1.5e9,
            source=f"{_DOCS}v5e",
        ),
        Chip(
            "v5p",
            peak_flops=459e12,
            # The page says 95 GiB; the compiler uses more.
            hbm_bytes=96 * 2**30,
            hbm_bandwidth=2765e9,
            ici_bandwidth=1200e9,
            devices=1,
            available_bytes=102786660352,
            clock=1.75e9,
            source=f"{_DOCS}v5p",
        ),
        Chip(
            "v6e",
            peak_flops=918e12,
            hbm_bytes=32 * 2**30,
            hbm_bandwidth=1638e9,
            ici_bandwidth=800e9,
            devices=1,
            available_bytes=33546042880,
            clock=1.75e9,
            source=f"{_DOCS}v6e, {_DOCS}tpu7x",
        ),
        Chip(
            "tpu7x",
            peak_flops=2307e12,
            hbm_bytes=192 * 2**30,
            hbm_bandwidth=7380e9,
            ici_bandwidth=1200e9,
            devices=2,
            available_bytes=101724453888,
            clock=None,
            source=f"{_DOCS}tpu7x",
        ),
    )
}


def chip_of(topology: str) -> Chip:
    """The chip of a topology such as "v6e:2x2".

    Raises:
        KeyError: there is no such chip in the table.
    """
    return CHIPS[topology.partition(":")[0]]
