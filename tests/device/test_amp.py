"""Autocast and GradScaler."""

import threading

import pytest
import torch
from torch import nn


def test_default_is_bfloat16():
    assert torch.get_autocast_dtype("tpu") == torch.bfloat16
    assert torch.amp.is_autocast_available("tpu")
    assert torch.tpu.amp.get_amp_supported_dtype() == [torch.bfloat16, torch.float16]


def test_default_is_bfloat16_in_other_threads():
    seen = []

    def use():
        x = torch.ones(2, 2, device="tpu")
        with torch.autocast("tpu"):
            seen.append((x @ x).dtype)

    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert seen == [torch.bfloat16]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_go_down(dtype):
    x = torch.ones(4, 4, device="tpu")
    with torch.autocast("tpu", dtype=dtype):
        assert (x @ x).dtype == dtype
        assert nn.functional.linear(x, x).dtype == dtype
        assert torch.bmm(x[None], x[None]).dtype == dtype
        assert torch.addmm(x, x, x).dtype == dtype
    assert (x @ x).dtype == torch.float32


def test_sums_losses_and_norms_go_up():
    x = torch.ones(4, 4, device="tpu", dtype=torch.bfloat16)
    with torch.autocast("tpu"):
        assert x.exp().dtype == torch.float32
        assert x.softmax(-1).dtype == torch.float32
        assert x.sum().dtype == torch.float32
        assert x.log().dtype == torch.float32
        assert nn.functional.layer_norm(x, (4,)).dtype == torch.float32
        assert nn.functional.mse_loss(x, x).dtype == torch.float32
        target = torch.zeros(4, dtype=torch.long, device="tpu")
        assert nn.functional.cross_entropy(x, target).dtype == torch.float32
        ones = torch.ones_like(x)
        assert nn.functional.binary_cross_entropy(ones, ones).dtype == torch.float32


def test_mixed_types_are_promoted():
    x = torch.ones(4, device="tpu")
    y = x.bfloat16()
    with torch.autocast("tpu"):
        assert torch.cat([x, y]).dtype == torch.float32
        assert torch.dot(x, y).dtype == torch.float32


def test_nested_and_disabled():
    x = torch.ones(4, 4, device="tpu")
    with torch.autocast("tpu"):
        with torch.autocast("tpu", enabled=False):
            assert (x @ x).dtype == torch.float32
        assert (x @ x).dtype == torch.bfloat16
    with torch.tpu.amp.autocast():
        assert (x @ x).dtype == torch.bfloat16


def test_another_type_is_refused_with_a_warning():
    with pytest.warns(UserWarning, match="tpu autocast|In tpu autocast"):
        torch.autocast("tpu", dtype=torch.int8)


def test_model_trains_under_autocast():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3)).to("tpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(32, 8).to("tpu")
    y = (torch.arange(32) % 3).to("tpu")
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        with torch.autocast("tpu"):
            loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert all(p.grad.dtype == torch.float32 for p in model.parameters())


def test_custom_function():
    class Double(torch.autograd.Function):
        @staticmethod
        @torch.tpu.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, x):
            assert not torch.is_autocast_enabled("tpu")
            return x * 2

        @staticmethod
        @torch.tpu.amp.custom_bwd
        def backward(ctx, grad):
            return grad * 2

    x = torch.ones(2, device="tpu", dtype=torch.bfloat16, requires_grad=True)
    with torch.autocast("tpu"):
        y = Double.apply(x)
    assert y.dtype == torch.float32
    y.sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.amp.GradScaler("tpu", init_scale=8.0, growth_interval=2),
        lambda: torch.tpu.amp.GradScaler(init_scale=8.0, growth_interval=2),
    ],
)
def test_grad_scaler(make):
    weight = nn.Parameter(torch.ones(3, device="tpu"))
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = make()
    assert scaler.is_enabled()
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(weight.sum()).backward()
        assert weight.grad.tolist() == [8.0] * 3
        scaler.step(optimizer)
        scaler.update()
    assert weight.tolist() == [-1.0] * 3
    assert scaler.get_scale() == 16.0

    optimizer.zero_grad()
    scaler.scale(weight.sum() * float("inf")).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [-1.0] * 3
    assert scaler.get_scale() == 8.0
    other = make()
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0
