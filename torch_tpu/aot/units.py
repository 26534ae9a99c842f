"""Numbers as a person reads them."""

from __future__ import annotations


def size(count: int) -> str:
    """Of bytes, such as "15.8 GiB"."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(count) >= factor:
            return f"{count / factor:,.2f} {unit}"
    return f"{count} B"


def scaled(value: float, unit: str) -> str:
    """With a decimal prefix, such as "918 Tflop/s"."""
    for prefix, factor in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def seconds(value: float) -> str:
    """Such as "23.8 us"."""
    for unit, factor in (("s", 1), ("ms", 1e-3), ("us", 1e-6)):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def share(part: float, whole: float) -> str:
    """Such as "12.5 %"."""
    return f"{100 * part / whole:.1f} %" if whole else "-"
