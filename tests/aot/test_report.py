"""What the report says of programs that fit."""

import json

import pytest
import torch

from torch_tpu import aot
from torch_tpu.aot.chips import CHIPS, chip_of
from torch_tpu.aot.roofline import roofline

SIDE = 4096
FLOPS = 2 * SIDE**3


def test_the_product_costs_most(product):
    first, *others = product.operators
    assert first.name == "aten::mm"
    assert first.cycles > 0.9 * product.costs.cycles
    assert product.costs.cycles == first.cycles + sum(x.cycles for x in others)
    assert "aten::mm" in str(product)
    assert f"{first.cycles:,}" in str(product)


def test_parts_of_memory_sum_up(product):
    assert product.fits
    assert product.parts["inputs"] == 2 * SIDE * SIDE * 2
    assert product.parts["outputs"] >= SIDE * 2
    assert product.needs == sum(product.parts.values())
    memory = product.memory
    assert product.needs == (
        memory["arguments"]
        + memory["outputs"]
        - memory["alias"]
        + memory["temporaries"]
        + memory["generated_code"]
    )
    assert product.memory_limit == chip_of(product.topology).available_bytes


def test_the_roofline_is_that_of_one_device(product):
    line, chip = product.roofline, chip_of(product.topology)
    assert product.model_flops == FLOPS
    assert line.compute_seconds == pytest.approx(FLOPS / chip.device_flops, rel=0.01)
    assert line.bound == "compute"
    # Both operands once, and little else.
    moved = 2 * SIDE * SIDE * 2
    assert moved <= product.costs.hbm_bytes < 1.5 * moved
    assert product.costs.hbm_bytes <= product.bytes_accessed  # which counts on the chip too
    assert line.memory_seconds == product.costs.hbm_bytes / chip.device_bandwidth
    assert 0.3 < line.mfu_at_most <= 1
    assert line.mfu_at_most * max(line.seconds, line.estimated_seconds) == pytest.approx(
        FLOPS / chip.device_flops, rel=0.01
    )
    if chip.clock is not None:
        assert line.estimated_seconds == product.costs.cycles / chip.clock


def test_json_has_what_the_text_has(product):
    values = json.loads(json.dumps(product.to_json()))
    assert values["costs"]["cycles"] == product.costs.cycles
    assert values["costs"]["operators"][0]["name"] == "aten::mm"
    assert values["roofline"]["bound"] == "compute"
    assert values["parts"] == product.parts
    assert values["chip"]["peak_flops"] == chip_of(product.topology).peak_flops
    assert "executable" not in values


def test_the_text_begins_with_the_verdict(product):
    lines = str(product).splitlines()
    assert lines[0].startswith(f"{product.topology}: FITS. Needs ")
    assert "nothing here ran on a TPU" in lines[1]
    assert max(map(len, lines)) <= 110
    assert not any(line != line.rstrip() for line in lines)


def test_a_step_tells_what_it_holds(libtpu):
    model = torch.nn.Linear(128, 128)
    compiled = aot.compile(
        model,
        (torch.empty(8, 128),),
        "v4:2x2x1",
        loss_fn=torch.sum,
        optimizer=lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    )
    parameters = 4 * 128 * 129
    assert compiled.parts["parameters"] == parameters
    assert compiled.parts["optimizer"] == parameters
    assert compiled.parts["inputs"] == 4 * 8 * 128
    assert compiled.parts["outputs"] < 10_000  # updated in place: the loss is left
    # A device of v4 is half a chip, whatever the plugin says.
    assert compiled.memory_limit < 16 * 2**30


def test_bounds_by_memory_and_without_estimates():
    chip = CHIPS["v5e"]
    line = roofline(chip, flops=197e9, hbm_bytes=819e7, model_flops=197e9 / 2, optimal_seconds=-3)
    assert line.compute_seconds == pytest.approx(1e-3)
    assert line.memory_seconds == pytest.approx(10e-3)
    assert (line.seconds, line.bound) == (line.memory_seconds, "memory")
    assert line.estimated_seconds is None
    assert line.mfu_at_most == pytest.approx(0.05)
    slower = roofline(chip, flops=197e9, hbm_bytes=0, model_flops=197e9, cycles=3_000_000)
    assert slower.estimated_seconds == pytest.approx(2e-3)
    assert slower.mfu_at_most == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("name", "units", "side", "devices"),
    [("v4", 8, 128, 2), ("v5e", 4, 128, 1), ("v5p", 8, 128, 1), ("v6e", 4, 256, 1)],
)
def test_chips_agree_with_their_matrix_units(name, units, side, devices):
    """The published peak is that of the units at the clock."""
    chip = CHIPS[name]
    assert chip.peak_flops == pytest.approx(units * side**2 * 2 * chip.clock, rel=0.01)
    assert chip.devices == devices
    assert chip.device_flops * devices == chip.peak_flops


@pytest.mark.parametrize("chip", CHIPS.values(), ids=lambda chip: chip.name)
def test_a_device_has_no_more_memory_than_its_part_of_the_chip(chip):
    assert 0.9 * chip.hbm_bytes < chip.available_bytes * chip.devices <= chip.hbm_bytes
    assert chip.source.startswith("https://docs.cloud.google.com/tpu/docs/")
