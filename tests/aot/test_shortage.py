"""Programs that do not fit: by how much, and what would help."""

import pytest

from torch_tpu.aot import shortage
from torch_tpu.aot.chips import CHIPS

GIB = 2**30
HELD = {"parameters": 8 * GIB, "buffers": 0, "optimizer": 16 * GIB, "inputs": 1 * GIB}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "E1000: CompileTimeHbmOom: Ran out of memory on HBM, the total memory required for "
            "HLO temporaries (36.00G) exceeds available HBM (31.24G). HLO module: forward.",
            (36 * GIB, round(31.24 * GIB)),
        ),
        (
            "XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 40.1G "
            "of 31.25G hbm. Exceeded hbm capacity by 8.9G.",
            (round(40.1 * GIB), round(31.25 * GIB)),
        ),
        ("Ran out of memory (1.50T) exceeds available HBM (768.00M)", (1536 * GIB, 768 * 2**20)),
        ("Ran out of memory in memory space vmem. Used 40.1M of 16.00M vmem.", None),
        ("something else", None),
    ],
)
def test_sizes_in_messages(message, expected):
    assert shortage.needed(message) == expected


def test_allocations_in_messages():
    message = """Used 40.1G of 31.25G hbm.
  Largest program allocations in hbm:
  1. Size: 32.00G
     Operator: op_name="aten::mm" source_file="x.py"
     Shape: f32[65536,131072]{1,0:T(8,128)}
     Unpadded size: 32.00G
  2. Size: 512.00M
     Shape: f32[1024]"""
    assert shortage.allocations(message) == [("aten::mm", 32 * GIB), ("", GIB // 2)]
    assert shortage.allocations("no list") == []


def changes(needs, limit, **more):
    found = shortage.changes(HELD, needs, limit, **({"float32": 0, "training": True} | more))
    return {change.text.partition(" ")[0]: change for change in found}, found


def test_a_state_that_is_too_large_is_not_a_matter_of_the_batch():
    found, _ = changes(40 * GIB, 15 * GIB, float32=24 * GIB)
    # 24 GiB of state and 8 of gradients.
    assert "32.00 GiB, 17.00 GiB more" in found["no"].text
    assert "at least 3 such devices" in found["at"].text
    assert found["bfloat16"].saves == 12 * GIB
    assert found["an"].saves == 16 * GIB
    assert not found["bfloat16"].enough and not found["an"].enough
    assert "a" not in found


def test_a_batch_that_is_too_large_is_told_which_one_fits():
    found, listed = changes(52 * GIB, 40 * GIB, float32=24 * GIB)
    # 40 - 32 are left for the 20 that grow with the batch.
    assert "at most 40.0 %" in found["a"].text
    assert found["a"].saves == 12 * GIB
    assert found["a"].enough
    assert found["bfloat16"].enough  # saves just these 12
    assert "20.00 GiB" in found["activation"].text
    assert [change.enough for change in listed] == sorted(
        (change.enough for change in listed), reverse=True
    )


@pytest.mark.parametrize("needs", [14 * GIB, 20 * GIB, 95 * GIB, 200 * GIB])
def test_chips_that_hold_it_are_listed(needs):
    found, _ = changes(needs, 10 * GIB)
    holding = {name for name, chip in CHIPS.items() if chip.available_bytes >= needs}
    listed = set(found["one"].text.rpartition(": ")[2].split(", ")) if holding else set()
    assert listed == holding


def test_the_report_tells_how_much_is_missing(too_large):
    parameters = 4 * 200_000 * 200_001
    assert not too_large.fits
    assert too_large.needs == pytest.approx(parameters, rel=0.01)
    assert sum(too_large.parts.values()) == too_large.needs
    assert too_large.memory_limit == CHIPS["v5e"].available_bytes
    text = str(too_large)
    assert text.startswith("v5e:1x1: DOES NOT FIT. Needs 149.0")
    assert "133.3" in text.partition("\n")[0]
    assert f"at least {-(-too_large.needs // too_large.memory_limit)} such devices" in text
    assert "no smaller batch is enough" in text
    bfloat16 = next(x for x in too_large.changes if x.text.startswith("bfloat16"))
    assert bfloat16.saves == pytest.approx(parameters / 2, rel=0.001)
    assert too_large.largest[0].operators[0] == "aten::linear"
    assert too_large.largest[0].bytes == 8 * 200_000 * 4
    assert too_large.roofline is None and too_large.operators == ()
