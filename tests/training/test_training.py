"""Whole trainings: losses of 20 steps equal the CPU's."""

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F

STEPS = 20


class Mlp(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4)
        )

    def loss(self, batch):
        return F.cross_entropy(self(batch[0]), batch[1])

    @staticmethod
    def batch():
        return torch.randn(8, 16), torch.randint(4, (8,))


class Cnn(nn.Sequential):
    def __init__(self):
        super().__init__(
            nn.Conv2d(3, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(8, 4),
        )

    def loss(self, batch):
        return F.cross_entropy(self(batch[0]), batch[1], label_smoothing=0.1)

    @staticmethod
    def batch():
        return torch.randn(4, 3, 8, 8), torch.randint(4, (4,))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (
            y.view(b, t, self.heads, c // self.heads).transpose(1, 2)
            for y in self.qkv(self.norm1(x)).split(c, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
        return x + self.mlp(self.norm2(x))


class Gpt(nn.Module):
    """Two layers, with tied embeddings."""

    def __init__(self, words=32, width=32, length=8):
        super().__init__()
        self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.tokens.weight

    def loss(self, batch):
        x, y = batch[0][:, :-1], batch[0][:, 1:]
        places = torch.arange(x.shape[1], device=x.device)
        logits = self.head(self.norm(self.blocks(self.tokens(x) + self.places(places))))
        return F.cross_entropy(logits.flatten(0, 1), y.flatten())

    @staticmethod
    def batch():
        return (torch.randint(32, (4, 9)),)


MODELS = {"mlp": Mlp, "cnn": Cnn, "gpt": Gpt}
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 1e-3}),
    "adam": (torch.optim.Adam, {"lr": 1e-3}),
    "adamw": (torch.optim.AdamW, {"lr": 1e-3, "weight_decay": 0.01}),
}
KINDS = {"default": {}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def train(model, optimizer, batches):
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = model.loss(batch)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses).cpu()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", MODELS)
def test_losses_are_those_of_the_cpu(name, optimizer, kind):
    torch.manual_seed(0)
    host = MODELS[name]()
    device = copy.deepcopy(host).to("tpu")
    batches = [host.batch() for _ in range(2)] * (STEPS // 2)
    make, options = OPTIMIZERS[optimizer]
    options = {**options, **KINDS[kind]}
    want = train(host, make(host.parameters(), **options), batches)
    torch.tpu.reset_counters()
    moved = [tuple(x.to("tpu") for x in batch) for batch in batches]
    got = train(device, make(device.parameters(), **options), moved)
    assert want[-5:].mean() < want[:5].mean()
    torch.testing.assert_close(got, want, rtol=1e-4, atol=0)
    assert torch.tpu.fallback_ops() == {}
    if optimizer != "sgd":
        return  # Adam turns the rounding of a gradient that is zero (a key's bias) into a step
    for (key, a), b in zip(device.state_dict().items(), host.state_dict().values(), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-3, atol=1e-4, msg=lambda m, k=key: k + m)


def test_steps_after_the_first_two_compile_nothing():
    torch.manual_seed(0)
    model = Gpt().to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    batches = [tuple(x.to("tpu") for x in model.batch()) for _ in range(5)]
    train(model, optimizer, batches[:2])
    torch.tpu.reset_counters()
    train(model, optimizer, batches[2:])
    # Stacking three losses instead of two is another program.
    assert torch.tpu.counters()["compiles"] <= 1


def test_scheduler_and_clipping():
    """A changing learning rate, clipped gradients and accumulation."""
    torch.manual_seed(0)
    host = Mlp()
    device = copy.deepcopy(host).to("tpu")
    batches = [host.batch() for _ in range(6)]
    results = []
    for model, place in ((host, "cpu"), (device, "tpu")):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
        losses = []
        for step, batch in enumerate(batches):
            loss = model.loss([x.to(place) for x in batch]) / 2
            loss.backward()
            losses.append(loss.item())
            if step % 2:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
            scheduler.step()
        results.append(losses)
    assert results[1] == pytest.approx(results[0], rel=1e-4)


def test_autocast_trains():
    torch.manual_seed(0)
    model = Mlp().to("tpu")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    x, y = (t.to("tpu") for t in Mlp.batch())
    losses = []
    for _ in range(STEPS):
        with torch.autocast("tpu"):
            out = model(x)
            assert out.dtype == torch.bfloat16
            loss = F.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
