"""Random operators: ranges, moments, independence and reproducibility. Numbers are not those of
the CPU's generator, so distributions are checked."""

import math

import pytest
import torch
from torch.nn import functional as F

N = 20_000


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(1234)


def new(dtype=torch.float32, n=N):
    return torch.empty(n, device="tpu", dtype=dtype)


def close_moments(x, mean, std):
    """Mean within five standard errors, standard deviation within 5 %."""
    x = x.double().cpu()
    assert abs(x.mean().item() - mean) < 5 * std / math.sqrt(x.numel())
    assert abs(x.std().item() - std) < 0.05 * std


CONTINUOUS = {
    "rand": (lambda: torch.rand(N, device="tpu"), 0.5, math.sqrt(1 / 12), 0, 1),
    "randn": (lambda: torch.randn(N, device="tpu"), 0, 1, -10, 10),
    "rand_like": (lambda: torch.rand_like(new()), 0.5, math.sqrt(1 / 12), 0, 1),
    "randn_like": (lambda: torch.randn_like(new()), 0, 1, -10, 10),
    "uniform_": (lambda: new().uniform_(-3, 5), 1, 8 * math.sqrt(1 / 12), -3, 5),
    "normal_": (lambda: new().normal_(2, 3), 2, 3, -30, 30),
    "normal": (lambda: torch.normal(2.0, 3.0, (N,), device="tpu"), 2, 3, -30, 30),
    "normal.tensors": (
        lambda: torch.normal(torch.full((N,), 2.0).to("tpu"), torch.full((N,), 3.0).to("tpu")),
        2, 3, -30, 30,
    ),
    "exponential_": (lambda: new().exponential_(2), 0.5, 0.5, 0, math.inf),
    "log_normal_": (
        lambda: new().log_normal_(0, 0.25), math.exp(1 / 32),
        math.sqrt((math.exp(1 / 16) - 1) * math.exp(1 / 16)), 0, math.inf,
    ),
    "geometric_": (lambda: new().geometric_(0.25), 4, math.sqrt(0.75) / 0.25, 1, math.inf),
    "poisson": (lambda: torch.poisson(torch.full((N,), 4.0).to("tpu")), 4, 2, 0, math.inf),
    "bernoulli": (
        lambda: torch.bernoulli(torch.full((N,), 0.3).to("tpu")), 0.3, math.sqrt(0.21), 0, 1,
    ),
    "bernoulli_": (lambda: new().bernoulli_(0.3), 0.3, math.sqrt(0.21), 0, 1),
    "randint": (
        lambda: torch.randint(-5, 11, (N,), device="tpu"), 2.5, math.sqrt((16**2 - 1) / 12), -5, 10,
    ),
    "random_": (lambda: new(torch.int64).random_(16), 7.5, math.sqrt(255 / 12), 0, 15),
    "randint_like": (
        lambda: torch.randint_like(new(torch.int32), 16), 7.5, math.sqrt(255 / 12), 0, 15,
    ),
    "bfloat16": (
        lambda: torch.rand(N, device="tpu", dtype=torch.bfloat16), 0.5, math.sqrt(1 / 12), 0, 1,
    ),
    "float64": (
        lambda: torch.rand(N, device="tpu", dtype=torch.float64), 0.5, math.sqrt(1 / 12), 0, 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution(name):
    draw, mean, std, low, high = CONTINUOUS[name]
    x = draw()
    assert x.device.type == "tpu"
    close_moments(x, mean, std)
    assert low <= x.min().item()
    assert x.max().item() <= high


@pytest.mark.parametrize("name", CONTINUOUS)
def test_reproducible(name):
    """The same seed gives the same numbers; without it they go on."""
    draw = CONTINUOUS[name][0]
    torch.manual_seed(5)
    first, second = draw(), draw()
    torch.manual_seed(5)
    assert torch.equal(draw(), first)
    assert torch.equal(draw(), second)
    assert not torch.equal(first, second)


def test_cauchy():
    """The median and the quartiles; there are no moments."""
    x = new().cauchy_(1, 2).cpu()
    quartiles = torch.quantile(x, torch.tensor([0.25, 0.5, 0.75]))
    torch.testing.assert_close(quartiles, torch.tensor([-1.0, 1.0, 3.0]), rtol=0, atol=0.2)


def test_uniform_excludes_its_upper_end():
    x = torch.rand(200_000, device="tpu", dtype=torch.float16)
    assert x.max().item() < 1


def test_randperm():
    x = torch.randperm(1000, device="tpu")
    assert x.dtype == torch.int64
    assert sorted(x.tolist()) == list(range(1000))
    assert x.tolist() != list(range(1000))
    assert torch.randperm(0, device="tpu").shape == (0,)
    assert sorted(torch.randperm(7, device="tpu", dtype=torch.int32).tolist()) == list(range(7))


def test_dropout():
    x = torch.ones(N, device="tpu", requires_grad=True)
    y = F.dropout(x, 0.25)
    kept = (y != 0).float().mean().item()
    assert abs(kept - 0.75) < 0.02
    assert set(y.detach().cpu().unique().tolist()) <= {0.0, torch.tensor(1 / 0.75).item()}
    y.sum().backward()
    torch.testing.assert_close(x.grad, y.detach())
    assert torch.equal(F.dropout(x, 0.25, training=False), x)
    assert F.dropout(x, 1.0).abs().sum().item() == 0


@pytest.mark.parametrize(
    "layer", [F.dropout1d, F.dropout2d, F.alpha_dropout, F.feature_alpha_dropout]
)
def test_dropouts_are_reproducible(layer):
    x = torch.randn(8, 16, 4, 4)[..., 0] if layer is F.dropout1d else torch.randn(8, 16, 4, 4)
    x = x.to("tpu")
    torch.manual_seed(3)
    first = layer(x, 0.5, training=True)
    torch.manual_seed(3)
    assert torch.equal(layer(x, 0.5, training=True), first)
    assert not torch.equal(first, x)


def test_multinomial():
    weights = torch.tensor([[1.0, 0, 3, 0], [0, 1, 1, 2]], device="tpu")
    drawn = torch.multinomial(weights, 4000, replacement=True).cpu()
    counts = torch.stack([torch.bincount(row, minlength=4) for row in drawn]) / 4000
    want = torch.tensor([[0.25, 0, 0.75, 0], [0, 0.25, 0.25, 0.5]])
    torch.testing.assert_close(counts, want, rtol=0, atol=0.04)


def test_multinomial_without_replacement():
    weights = torch.tensor([0.1, 0.0, 0.4, 0.5], device="tpu")
    for _ in range(20):
        assert sorted(torch.multinomial(weights, 3).tolist()) == [0, 2, 3]


def test_own_generator():
    """A generator of the user's is used, and leaves the default one alone."""
    before = torch.tpu.get_rng_state()
    one = torch.Generator(device="tpu").manual_seed(9)
    two = torch.Generator(device="tpu").manual_seed(9)
    first = torch.rand(100, device="tpu", generator=one)
    assert torch.equal(first, torch.rand(100, device="tpu", generator=two))
    assert not torch.equal(first, torch.rand(100, device="tpu", generator=one))
    assert torch.equal(torch.tpu.get_rng_state(), before)


def test_state_round_trip():
    torch.rand(3, device="tpu")
    state = torch.tpu.get_rng_state()
    assert state.numel() == 16
    first = torch.randn(50, device="tpu")
    torch.tpu.set_rng_state(state)
    assert torch.equal(torch.randn(50, device="tpu"), first)


def test_fork_rng():
    want = torch.tpu.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type="tpu"):
        torch.manual_seed(77)
        torch.rand(3, device="tpu")
    assert torch.equal(torch.tpu.get_rng_state(), want)


def test_new_seed_compiles_nothing():
    torch.rand(33, device="tpu")
    torch.tpu.reset_counters()
    for seed in range(3):
        torch.manual_seed(seed)
        torch.rand(33, device="tpu")
    assert torch.tpu.counters()["compiles"] == 0


def test_shape_does_not_change_the_stream():
    """Numbers depend on seed and place, not on the shape."""
    torch.manual_seed(4)
    flat = torch.rand(24, device="tpu")
    torch.manual_seed(4)
    assert torch.equal(torch.rand(4, 6, device="tpu").flatten(), flat)


def test_strided_output_is_filled_in_logical_order():
    torch.manual_seed(4)
    want = torch.empty(4, 6, device="tpu").uniform_()
    torch.manual_seed(4)
    got = torch.empty(6, 4, device="tpu").t().uniform_()
    assert got.shape == want.shape
    assert got.unique().numel() == 24


def test_view_is_filled_alone():
    x = torch.zeros(4, 6, device="tpu")
    x[1:3, ::2].uniform_(1, 2)
    assert (x != 0).sum().item() == 6
    assert (x[1:3, ::2] >= 1).all().item()


def test_wrong_parameters():
    with pytest.raises(RuntimeError, match="expects std >= 0"):
        new().normal_(0, -1)
    with pytest.raises(RuntimeError, match="from < to|'from' < 'to'|less than"):
        torch.randint(5, 5, (2,), device="tpu")
    with pytest.raises(RuntimeError, match=r"uniform_ expects to return a \[from, to\) range"):
        new().uniform_(2, 1)
