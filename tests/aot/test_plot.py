"""The picture of memory by part."""

from xml.etree import ElementTree

import pytest

from torch_tpu.aot import plot

SVG = "{http://www.w3.org/2000/svg}"
GIB = 2**30


def bars(picture):
    """Widths of the parts' rectangles, by row and part; and all text."""
    root = ElementTree.fromstring(picture)
    rows = {}
    for rect in root.iter(f"{SVG}rect"):
        part = rect.get("data-part")
        if part is not None:
            rows.setdefault(rect.get("y"), {})[part] = float(rect.get("width"))
            assert float(rect.get("x")) + float(rect.get("width")) <= float(root.get("width"))
    texts = [text.text for text in root.iter(f"{SVG}text")]
    return list(rows.values()), texts


def test_widths_are_shares_of_the_larger_of_memory_and_need():
    parts = {"parameters": 12 * GIB, "temporaries": 8 * GIB, "program": 4 * GIB}
    (row,), texts = bars(plot.memory("title", parts, 16 * GIB, "note"))
    whole = sum(row[part] for part in parts)
    for part, bytes_ in parts.items():
        assert row[part] / whole == pytest.approx(bytes_ / (24 * GIB), abs=1e-4)
    assert row["limit"] / whole == pytest.approx(16 / 24, abs=1e-4)
    assert {"title", "note", "parameters", "12.00 GiB", "75.0 %"} <= set(texts)


def test_what_takes_little_is_shown_alone_too():
    parts = {"parameters": GIB, "inputs": GIB}
    (against, alone), _ = bars(plot.memory("title", parts, 32 * GIB, "note"))
    assert against["parameters"] / against["limit"] == pytest.approx(1 / 32, abs=1e-4)
    assert alone["parameters"] == alone["inputs"] == pytest.approx(against["limit"] / 2, abs=0.01)


def test_names_are_escaped():
    rows, texts = bars(plot.memory("a < b & c", {'"<x>"': 1}, None, "note"))
    assert list(rows[0]) == ['"<x>"']
    assert "a < b & c" in texts


def test_a_report_draws_itself(too_large, tmp_path):
    path = tmp_path / "memory.svg"
    too_large.plot(path)
    (row,), texts = bars(path.read_text())
    assert row["parameters"] / row["limit"] == pytest.approx(
        too_large.parts["parameters"] / too_large.memory_limit, rel=1e-3
    )
    assert texts[0].startswith("v5e:1x1: DOES NOT FIT")
    assert "nothing here ran on a TPU" in texts[-1]
    with pytest.raises(OSError):
        too_large.plot(tmp_path / "no folder" / "memory.svg")
