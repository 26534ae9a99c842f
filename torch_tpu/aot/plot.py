"""A picture of memory by part, as SVG."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from torch_tpu.aot.units import share, size

_WIDTH, _LEFT, _BAR = 860, 20, 34
_SPAN = _WIDTH - 2 * _LEFT
# Told apart by people who see few colours too (Okabe and Ito).
_COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442"]
_COLOURS += ["#999999", "#000000"]


def memory(title: str, parts: dict[str, int], limit: int | None, note: str) -> str:
    """A bar of the parts (bytes, all above zero) against the limit. If they take little of it, a
    second bar shows them alone."""
    total = sum(parts.values())
    whole = max(total, limit or 0, 1)
    drawn, y = [_text(_LEFT, 28, title, 'font-size="14" font-weight="bold"')], 58
    if limit:
        drawn.append(_text(_LEFT, y, f"Against a device's memory: {size(limit)}, the dashed line"))
        y += 8
        width = _SPAN * limit / whole
        drawn.append(_rect(_LEFT, y, width, "#eeeeee", "limit", limit))
        drawn += _stack(parts, whole, y)
        # The limit lies within a bar that does not fit.
        drawn.append(
            f'<line x1="{_LEFT + width:.2f}" x2="{_LEFT + width:.2f}" y1="{y - 4}" '
            f'y2="{y + _BAR + 4}" stroke="black" stroke-width="2" stroke-dasharray="4 2"/>'
        )
        y += _BAR + 30
    if not limit or total < limit / 2:
        drawn.append(_text(_LEFT, y, f"Alone: {size(total)}"))
        y += 8
        drawn += _stack(parts, total or 1, y)
        y += _BAR + 30
    for (name, bytes_), colour in zip(parts.items(), _cycle(len(parts)), strict=True):
        drawn.append(f'<rect x="{_LEFT}" y="{y - 11}" width="14" height="14" fill="{colour}"/>')
        drawn.append(_text(_LEFT + 24, y, name))
        drawn.append(_text(_LEFT + 300, y, size(bytes_), 'text-anchor="end"'))
        drawn.append(_text(_LEFT + 380, y, share(bytes_, limit or total), 'text-anchor="end"'))
        y += 20
    drawn.append(_text(_LEFT, y + 10, note, 'fill="#555555" font-size="12"'))
    height = y + 26
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="13">\n'
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>\n'
        + "\n".join(drawn)
        + "\n</svg>\n"
    )


def _stack(parts: dict[str, int], whole: int, y: int) -> list[str]:
    drawn, x = [], float(_LEFT)
    for (name, bytes_), colour in zip(parts.items(), _cycle(len(parts)), strict=True):
        width = _SPAN * bytes_ / whole
        drawn.append(_rect(x, y, width, colour, name, bytes_))
        x += width
    return drawn


def _cycle(count: int) -> list[str]:
    return [_COLOURS[index % len(_COLOURS)] for index in range(count)]


def _rect(x: float, y: int, width: float, colour: str, name: str, bytes_: int) -> str:
    tip = escape(f"{name}: {size(bytes_)}")
    return (
        f'<rect x="{x:.2f}" y="{y}" width="{width:.3f}" height="{_BAR}" fill="{colour}" '
        f"data-part={quoteattr(name)}><title>{tip}</title></rect>"
    )


def _text(x: int, y: int, text: str, style: str = "") -> str:
    return f'<text x="{x}" y="{y}" {style}>{escape(text)}</text>'
