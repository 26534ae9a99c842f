"""Programs for several chips: what shards a model makes collectives of the program."""

import json
import os
import re
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

from torch_tpu import _plugin, aot
from torch_tpu.aot.chips import CHIPS
from torch_tpu.aot.roofline import roofline
from torch_tpu.aot.world import Collective, _groups, world_of

needs_libtpu = pytest.mark.skipif(
    _plugin.find_libtpu() is None, reason="libtpu is not installed (pip install libtpu)"
)

WIDTH, HIDDEN, BATCH = 16, 64, 8
PARAMETERS = 4 * (2 * WIDTH * HIDDEN + HIDDEN + WIDTH)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, HIDDEN), nn.Linear(HIDDEN, WIDTH)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def mean_square(output):
    return output.square().mean()


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, capturable=True)


def fsdp(model):
    for block in model.blocks:
        fully_shard(block, mesh=init_device_mesh("tpu", (dist.get_world_size(),)))
    return fully_shard(model, mesh=init_device_mesh("tpu", (dist.get_world_size(),)))


def tensor_parallel(model):
    mesh = init_device_mesh("tpu", (2, 4), mesh_dim_names=("dp", "tp"))
    for block in model.blocks:
        parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})


def step(parallelize, num_devices=8):
    return aot.capture(
        Model(),
        (torch.zeros(BATCH, WIDTH),),
        loss_fn=mean_square,
        optimizer=adamw,
        parallelize=parallelize,
        num_devices=num_devices,
    )


def sums(program):
    return {(x.kind, x.group_size): (x.count, x.bytes) for x in program.collectives}


def test_fsdp_gathers_parameters_and_scatters_gradients():
    program = step(fsdp)
    assert program.num_devices == 8
    assert program.held["parameters"] == 2 * PARAMETERS // 8
    assert program.held["optimizer"] == 2 * 2 * PARAMETERS // 8 + 8 * 4  # a count each
    found = sums(program)
    # Forward and backward gather each block; the last one is kept for its backward.
    gathers, gathered = found["all_gather", 8]
    assert gathered == gathers * PARAMETERS
    assert 3 <= gathers <= 4
    assert found["reduce_scatter", 8] == (2, 2 * PARAMETERS)
    assert program.text.count('"stablehlo.all_gather"') == gathers
    assert program.text.count('"stablehlo.reduce_scatter"') == 2
    assert "replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]>" in program.text
    # Buffers that nobody has written to are no operands.
    arguments = re.search(r"@main\((.*?)\) ->", program.text, re.DOTALL)[1]
    assert arguments.count("%arg") == 8 + 3 * 8 + 1  # parameters, states, the input


def test_tensor_parallel_sums_over_its_groups():
    program = step(tensor_parallel)
    assert program.held["parameters"] == 2 * 4 * (2 * WIDTH * HIDDEN // 4 + HIDDEN // 4 + WIDTH)
    # Each block sums its output forward and its input's gradient backward. The first block's
    # input needs none.
    count, size = sums(program)["all_reduce", 4]
    assert count == 3
    assert size == 3 * 4 * BATCH * WIDTH
    assert "replica_groups = dense<[[0, 1, 2, 3], [4, 5, 6, 7]]>" in program.text


def test_collectives_of_a_model_of_its_own():
    class Sum(nn.Module):
        def forward(self, x):
            dist.all_reduce(x, op=dist.ReduceOp.MAX)
            parts = torch.empty_like(x)
            dist.all_to_all_single(parts, x)
            return parts

    program = aot.capture(
        Sum(), (torch.zeros(8, 2),), parallelize=lambda model: None, num_devices=8
    )
    assert sums(program) == {("all_reduce", 8): (1, 64), ("all_to_all", 8): (1, 64)}
    assert "stablehlo.maximum" in program.text
    assert '"stablehlo.all_to_all"' in program.text


def test_the_process_is_free_afterwards():
    step(fsdp)
    assert not dist.is_initialized()
    x = torch.ones(3, device="tpu")
    assert (x + x).tolist() == [2, 2, 2]


def test_collectives_cannot_run():
    with world_of(4), pytest.raises(RuntimeError, match=r"torch_tpu\.aot compiles"):
        dist.all_reduce(torch.ones(3, device="tpu"))


def test_several_devices_need_a_way_to_use_them():
    with pytest.raises(ValueError, match="parallelize"):
        aot.capture(Model(), (torch.zeros(BATCH, WIDTH),), num_devices=8)
    with pytest.raises(ValueError, match=r"torch\.nn\.Module"):
        aot.capture(torch.sin, (torch.zeros(3),), parallelize=fsdp, num_devices=8)


def test_groups_are_those_of_a_mesh():
    assert _groups([0, 1, 2, 3], 8) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert _groups([0, 4], 8) == [0, 4, 1, 5, 2, 6, 3, 7]
    assert _groups([0, 1, 4, 5], 8) == [0, 1, 4, 5, 2, 3, 6, 7]
    with pytest.raises(ValueError, match="device mesh"):
        _groups([0, 1, 3], 6)


def test_bytes_moved_and_their_time():
    assert Collective("all_gather", "", 8, 1, 800).bytes_moved == 700
    assert Collective("all_reduce", "", 8, 1, 800).bytes_moved == 1400
    line = roofline(CHIPS["v6e"], flops=1, hbm_bytes=1, model_flops=1, sent_bytes=400e9)
    assert line.network_seconds == pytest.approx(1.0)
    assert line.bound == "network"


TARGET = f"""
import sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import test_several_devices as t, torch
def aot():
    return {{"model": t.Model(), "inputs": (torch.zeros(t.BATCH, t.WIDTH),),
             "loss_fn": t.mean_square, "parallelize": t.fsdp}}
"""


@needs_libtpu
def test_the_command_compiles_for_all_devices_of_a_topology(tmp_path):
    target, report = tmp_path / "model.py", tmp_path / "report.json"
    target.write_text(TARGET)
    command = [sys.executable, "-m", "torch_tpu.aot", str(target), "--topology", "v6e:2x2"]
    run = subprocess.run(
        [*command, "--train", "--effort", "0", "--json", str(report)],
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "on each of 4 devices" in run.stdout
    assert "reduce_scatter" in run.stdout
    values = json.loads(report.read_text())
    assert values["run_on"] == 4
    assert values["held"]["parameters"] == 2 * PARAMETERS // 4
    assert values["bytes_sent"] == sum(x["bytes_moved"] for x in values["collectives"])
    assert values["bytes_sent"] >= 5 * PARAMETERS * 3 // 4
