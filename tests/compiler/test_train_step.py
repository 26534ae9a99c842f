"""A whole training step as one program: the steps of eager, and nothing left behind."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_tpu.compiler import train_step

DEVICE = "tpu"


def model():
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Linear(8, 16), nn.GELU(), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 4)
    )
    return layers.to(DEVICE)


def loss_of(m, x, y):
    return F.mse_loss(m(x), y)


OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01, capturable=True),
    "Adam, one by one": lambda p: torch.optim.Adam(p, lr=0.01, capturable=True, foreach=False),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, capturable=True),
}


def batches(count):
    generator = torch.Generator().manual_seed(7)
    for _ in range(count):
        x, y = torch.randn(5, 8, generator=generator), torch.randn(5, 4, generator=generator)
        yield x.to(DEVICE), y.to(DEVICE)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_eager(name):
    eager, captured = model(), model()
    optimizers = [OPTIMIZERS[name](m.parameters()) for m in (eager, captured)]
    schedules = [torch.optim.lr_scheduler.StepLR(o, 2) for o in optimizers]
    step = train_step(captured, optimizers[1], loss_of)
    for i, (x, y) in enumerate(batches(7)):
        torch.manual_seed(i)  # of the dropout masks
        optimizers[0].zero_grad()
        expected = loss_of(eager, x, y)
        expected.backward()
        optimizers[0].step()
        torch.manual_seed(i)
        before = torch.tpu.counters()
        loss = step(x, y)
        after = torch.tpu.counters()
        if i > 0:
            assert after["executions"] - before["executions"] == 1
        if i > 2:  # the learning rate changes after steps 2, 4 and 6: seen once, it is an operand
            assert after["compiles"] - before["compiles"] == 0
        torch.testing.assert_close(loss, expected.detach(), rtol=1e-5, atol=1e-6)
        for schedule in schedules:
            schedule.step()
    for key, value in eager.state_dict().items():
        torch.testing.assert_close(captured.state_dict()[key], value, rtol=1e-5, atol=1e-6)
    assert all(p.grad is None for p in captured.parameters())


def test_memory_stays():
    m = model()
    step = train_step(m, OPTIMIZERS["AdamW"](m.parameters()), loss_of)
    used = []
    for x, y in batches(6):
        step(x, y)
        torch.tpu.synchronize()
        used.append(torch.tpu.memory_allocated())
    assert used[2] == used[-1]


def test_gradients_are_clipped_and_more_results_come_back():
    eager, captured = model(), model()
    optimizers = [OPTIMIZERS["SGD"](m.parameters()) for m in (eager, captured)]

    def outputs(m, x, y):
        out = m.eval()(x)
        return {"loss": 100 * F.mse_loss(out, y), "out": out}

    step = train_step(
        captured,
        optimizers[1],
        outputs,
        after_backward=lambda: nn.utils.clip_grad_norm_(captured.parameters(), 1.0),
    )
    for x, y in batches(4):
        optimizers[0].zero_grad()
        expected = outputs(eager, x, y)
        expected["loss"].backward()
        nn.utils.clip_grad_norm_(eager.parameters(), 1.0)
        optimizers[0].step()
        result = step(x, y)
        assert set(result) == {"loss", "out"}
        torch.testing.assert_close(result["out"], expected["out"].detach(), rtol=1e-5, atol=1e-6)


def test_another_size_and_mode_are_captured_anew():
    m = model()
    step = train_step(m, OPTIMIZERS["SGD"](m.parameters()), loss_of)
    (x, y), *_ = batches(1)
    for rows in (5, 5, 3, 3, 5):
        step(x[:rows], y[:rows])
    m.eval()
    with torch.no_grad():
        expected = loss_of(m, x, y)
    torch.testing.assert_close(step(x, y), expected)


def test_value_on_the_host_is_refused_and_nothing_changes():
    m = model()

    def loss_fn(m, x, y):
        loss = loss_of(m, x, y)
        return loss * 2 if loss.item() > 0 else loss

    step = train_step(m, OPTIMIZERS["SGD"](m.parameters()), loss_fn)
    (x, y), *_ = batches(1)
    step(x, y)
    before = {k: v.cpu() for k, v in m.state_dict().items()}
    with pytest.raises(RuntimeError, match=r"values on the host"):
        step(x, y)
    for key, value in m.state_dict().items():
        assert torch.equal(value.cpu(), before[key])
    assert (torch.ones(2, device=DEVICE) + 1).cpu().tolist() == [2, 2]


def test_counts_on_the_host_are_refused():
    m = model()
    step = train_step(m, torch.optim.Adagrad(m.parameters()), loss_of)
    (x, y), *_ = batches(1)
    with pytest.raises(ValueError, match="Adagrad keeps 'step' on the host"):
        step(x, y)


def test_loaded_weights_are_used():
    m = model()
    step = train_step(m, torch.optim.SGD(m.parameters(), lr=0.0), loss_of)
    (x, y), *_ = batches(1)
    m.eval()
    step(x, y)
    step(x, y)
    m.load_state_dict({k: torch.zeros_like(v) for k, v in m.state_dict().items()})
    torch.testing.assert_close(step(x, y), y.square().mean())
    m[4].bias.data = torch.ones(4, device=DEVICE)  # other memory
    torch.testing.assert_close(step(x, y), (1 - y).square().mean())
