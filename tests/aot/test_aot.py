"""Programs for a TPU that is not there: captured without memory, compiled by libtpu."""

import json
import subprocess
import sys

import pytest
import torch
from torch import nn

from torch_tpu import _plugin, aot

needs_libtpu = pytest.mark.skipif(
    _plugin.find_libtpu() is None, reason="libtpu is not installed (pip install libtpu)"
)


class Classifier(nn.Module):
    """Tied weights, and a buffer."""

    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(16, width)
        self.norm = nn.BatchNorm1d(width)
        self.head = nn.Linear(width, 16, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(torch.relu(self.norm(self.embedding(tokens))))


def loss_of(logits):
    return logits.logsumexp(-1).mean()


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-3, capturable=True)


TOKENS = torch.zeros(8, dtype=torch.long)


def test_forward_is_captured_and_the_model_is_left_alone():
    model = Classifier().eval()
    before = [p.data_ptr() for p in model.parameters()]
    program = aot.capture(model, (TOKENS,))
    assert [p.data_ptr() for p in model.parameters()] == before
    assert all(p.device.type == "cpu" for p in model.parameters())
    assert "stablehlo.dot_general" in program.text
    assert 'loc("' in program.text
    assert program.held["parameters"] == 4 * (16 * 32 + 2 * 32)  # tied: the weight counts once
    assert program.held["buffers"] == 4 * 2 * 32  # the count of batches is not read
    assert program.held["inputs"] == 8 * 8
    assert program.held["optimizer"] == 0


def test_a_training_step_updates_what_it_holds():
    program = aot.capture(Classifier(), (TOKENS,), loss_fn=loss_of, optimizer=adamw)
    parameters = 4 * (16 * 32 + 2 * 32)
    steps = 3 * 4  # a count for each parameter
    assert program.held["parameters"] == parameters
    assert program.held["optimizer"] == 2 * parameters + steps
    # In place: three parameters with three states each, the statistics with their count, and the
    # word that tells of tokens out of range.
    assert program.text.count("tf.aliasing_output") == 3 * 4 + 3 + 1


def test_a_model_without_memory_is_captured():
    with torch.device("meta"):
        model = nn.Linear(100_000, 100_000, bias=False)  # 40 GB
    allocated = torch.tpu.memory_allocated()
    program = aot.capture(model, (torch.empty(4, 100_000, device="meta"),))
    assert program.held["parameters"] == 4 * 100_000**2
    assert torch.tpu.memory_allocated() == allocated


def test_what_the_host_needs_is_an_error():
    with pytest.raises(RuntimeError, match="host"):
        aot.capture(lambda x: x * x.sum().item(), (torch.ones(3),))
    x = torch.ones(3, device="tpu")  # a failed capture leaves the device as it was
    assert (x + x).tolist() == [2, 2, 2]


def test_a_step_without_a_loss_is_an_error():
    with pytest.raises(ValueError, match="loss_fn"):
        aot.capture(Classifier(), (TOKENS,), optimizer=adamw)
    with pytest.raises(ValueError, match=r"torch\.nn\.Module"):
        aot.capture(torch.sin, (torch.ones(3),), optimizer=adamw)


@pytest.mark.parametrize("name", ["v6e", "v7x:1x1", "v6e:17x3"])
@needs_libtpu
def test_a_wrong_topology_lists_right_ones(name):
    with pytest.raises(aot.AotError, match="v5e:1x1.*v6e:1x1.*tpu7x:1x1x1"):
        aot.compile(torch.sin, (torch.ones(3),), name)


@pytest.mark.parametrize("topology", ["v5e:1x1", "v6e:1x1", "tpu7x:1x1x1"])
@needs_libtpu
def test_a_training_step_compiles(topology):
    compiled = aot.compile(Classifier(), (TOKENS,), topology, loss_fn=loss_of, optimizer=adamw)
    assert compiled.fits
    assert compiled.memory["arguments"] >= sum(compiled.held.values())
    assert compiled.memory["alias"] > 0
    assert compiled.memory_limit > 10e9
    assert compiled.flops >= 2 * 8 * 32 * 16
    assert compiled.executable
    assert "nothing here ran on a TPU" in str(compiled)


TARGET = """
import torch
def aot():
    with torch.device("meta"):
        return {"model": torch.nn.Linear(WIDTH, WIDTH), "inputs": (torch.empty(8, WIDTH),)}
"""


@pytest.mark.parametrize(("width", "status"), [(128, 0), (200_000, 1)])
@needs_libtpu
def test_the_command_tells_what_does_not_fit(tmp_path, width, status):
    target, report = tmp_path / "model.py", tmp_path / "report.json"
    target.write_text(TARGET.replace("WIDTH", str(width)))
    command = [sys.executable, "-m", "torch_tpu.aot", str(target), "--topology", "v5e:1x1"]
    run = subprocess.run([*command, "--json", str(report)], capture_output=True, text=True)
    assert run.returncode == status, run.stderr
    values = json.loads(report.read_text())
    assert values["fits"] == (status == 0)
    assert values["held"]["parameters"] == 4 * width * (width + 1)
    assert ("DOES NOT FIT" in run.stdout) == (status == 1)
