"""What is read off the captured program: flops of the model, and its largest values."""

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from torch_tpu import aot
from torch_tpu.aot import program_text


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def total(output):
    return output.sum()


def counted(model, x):
    """PyTorch's own count, forward and backward."""
    with FlopCounterMode(display=False) as mode:
        model(x).sum().backward()
    return mode.get_total_flops()


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (nn.Sequential(nn.Linear(24, 40), nn.ReLU(), nn.Linear(40, 8, bias=False)), (16, 24)),
        (nn.Conv2d(8, 16, 3, padding=1), (2, 8, 12, 12)),
        (nn.Sequential(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 4, 3, stride=2)), (2, 3, 17, 17)),
    ],
)
def test_flops_of_a_step_are_those_that_pytorch_counts(model, sizes):
    x = torch.zeros(sizes)
    program = aot.capture(model, (x,), loss_fn=total, optimizer=sgd)
    assert program_text.is_training_step(program.text)
    assert program_text.model_flops(program.text) == counted(model, x)


def test_flops_of_a_step_of_groups():
    """PyTorch counts the gradient of a grouped kernel as that of a whole one."""
    model = nn.Sequential(nn.Conv2d(8, 8, 1), nn.Conv2d(8, 4, 3, stride=2, groups=2))
    program = aot.capture(model, (torch.empty(2, 8, 9, 9),), loss_fn=total, optimizer=sgd)
    pointwise = 2 * (2 * 8 * 81) * 8  # no gradient of the input
    grouped = 2 * (2 * 4 * 16) * (4 * 9)
    assert program_text.model_flops(program.text) == 2 * pointwise + 3 * grouped


def test_flops_of_a_forward_of_attention():
    q = torch.empty(2, 4, 32, 16)
    program = aot.capture(functional.scaled_dot_product_attention, (q, q, q))
    assert program_text.model_flops(program.text) == 2 * 2 * (2 * 4 * 32 * 32 * 16)
    assert not program_text.is_training_step(program.text)


def test_largest_results_name_their_operators():
    x = torch.empty(64, 256)
    program = aot.capture(lambda x: (torch.exp(x @ x.T).sum(), x.tanh() + 1, x.tanh()), (x,))
    first, second = program_text.largest_results(program.text, 2)
    assert (first.type, first.bytes) == ("64x256xf32", 64 * 256 * 4)
    assert first.operators[:2] == ("aten::tanh", "aten::add.Tensor")
    assert first.count == 3
    assert (second.type, second.bytes) == ("64x64xf32", 64 * 64 * 4)
    assert set(second.operators) == {"aten::mm", "aten::exp"}


def test_float32_arguments_are_counted():
    given = torch.empty(3, 5), torch.empty(7, dtype=torch.bfloat16), torch.empty(())
    program = aot.capture(lambda x, y, z: x.sum() + y.sum() + z, given)
    assert program_text.float32_arguments(program.text) == 4 * (15 + 1)
