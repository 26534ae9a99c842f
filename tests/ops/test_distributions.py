"""Poisson, binomial, gamma and Dirichlet numbers: moments, probabilities, edges, derivatives."""

import math

import pytest
import torch
from compare import check

N = 50_000
NAN = float("nan")


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(20)


def full(*values, dtype=torch.float64):
    return [torch.full((N,), float(v), dtype=dtype, device="tpu") for v in values]


def has_moments(x, mean, variance):
    """Both within five standard errors."""
    x = x.double().cpu()
    if variance == 0:
        assert (x == mean).all()
        return
    got = x.mean().item(), x.var().item()
    fourth = (x - got[0]).pow(4).mean().item()
    assert abs(got[0] - mean) < 5 * math.sqrt(variance / N)
    assert abs(got[1] - variance) < 5 * math.sqrt((fourth - variance**2) / N)


def has_probabilities(x, probabilities):
    """Pearson's test, at five standard deviations of its statistic."""
    counts = torch.bincount(x.long().cpu(), minlength=len(probabilities))[: len(probabilities)]
    expected = probabilities * N
    common = expected > 5
    statistic = ((counts - expected) ** 2 / expected)[common].sum().item()
    freedom = int(common.sum())
    assert abs(statistic - freedom) < 5 * math.sqrt(2 * freedom)


@pytest.mark.parametrize("rate", [0, 0.01, 0.5, 3, 9.99, 10, 15, 100, 1e4, 1e7])
def test_poisson(rate):
    has_moments(torch.poisson(*full(rate)), rate, rate)


@pytest.mark.parametrize("rate", [4.0, 12.0])
def test_poisson_probabilities(rate):
    k = torch.arange(60.0, dtype=torch.float64)
    has_probabilities(
        torch.poisson(*full(rate, dtype=torch.float32)),
        torch.exp(k * math.log(rate) - rate - torch.lgamma(k + 1)),
    )


@pytest.mark.parametrize(
    ("n", "p"),
    [(10, 0.3), (10, 0.9), (40, 0.5), (1000, 0.02), (1e5, 0.7), (7, 0), (7, 1), (1e6, 1e-5)],
)
def test_binomial(n, p):
    has_moments(torch.binomial(*full(n, p)), n * p, n * p * (1 - p))


@pytest.mark.parametrize(("n", "p"), [(20, 0.3), (100, 0.4)])
def test_binomial_probabilities(n, p):
    k, of = torch.arange(n + 1.0, dtype=torch.float64), torch.tensor(float(n)).double()
    ways = torch.lgamma(of + 1) - torch.lgamma(k + 1) - torch.lgamma(of - k + 1)
    has_probabilities(
        torch.binomial(*full(n, p, dtype=torch.float32)),
        torch.exp(ways + k * math.log(p) + (of - k) * math.log(1 - p)),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("alpha", [0.1, 0.5, 0.99, 1, 2.5, 30, 1000])
def test_gamma(alpha, dtype):
    has_moments(torch._standard_gamma(*full(alpha, dtype=dtype)), alpha, alpha)


def test_dirichlet():
    alpha = torch.tensor([0.3, 2.0, 5.0])
    x = torch._sample_dirichlet(alpha.expand(N, 3).contiguous().to("tpu"))
    torch.testing.assert_close(x.sum(-1).cpu(), torch.ones(N))
    for i in range(3):
        mean = (alpha[i] / alpha.sum()).item()
        has_moments(x[:, i], mean, mean * (1 - mean) / (alpha.sum().item() + 1))


@pytest.mark.parametrize(
    "draw",
    [
        lambda: torch.poisson(torch.full((9,), 4.0, device="tpu")),
        lambda: torch.poisson(torch.full((9,), 400.0, device="tpu")),
        lambda: torch.binomial(*torch.tensor([[90.0] * 9, [0.5] * 9], device="tpu")),
        lambda: torch._standard_gamma(torch.full((9,), 0.5, device="tpu")),
        lambda: torch._sample_dirichlet(torch.full((9,), 0.5, device="tpu")),
    ],
)
def test_reproducible_by_seed(draw):
    torch.manual_seed(3)
    first, second = draw(), draw()
    torch.manual_seed(3)
    assert torch.equal(first, draw())
    assert not torch.equal(first, second)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_and_generators(dtype):
    generator = torch.Generator("tpu").manual_seed(5)
    x = torch.full((2, 3), 3.0, dtype=dtype, device="tpu")
    for draw in (torch.poisson, torch._standard_gamma, torch._sample_dirichlet):
        first = draw(x, generator=generator)
        assert first.dtype == dtype and first.shape == x.shape
        assert first.isfinite().all()


def test_edges_and_errors():
    count, prob = torch.tensor([0.0, 5, 5, 5, -1]), torch.tensor([0.5, 0, 1, NAN, 0.5])
    check(torch.binomial, count, prob)
    check(torch.binomial, torch.ones(3), torch.ones(3).double())
    check(torch.binomial, torch.ones(3), torch.ones(4))
    check(torch.binomial, torch.ones(2), torch.ones(3, 2))
    check(torch.binomial, torch.ones(0), torch.ones(0))
    check(torch.poisson, torch.tensor([-1.0]))
    check(torch.poisson, torch.tensor([NAN]))
    check(torch.poisson, torch.tensor([1]))
    check(torch.poisson, torch.ones(0, 3))
    check(torch._standard_gamma, torch.zeros(2))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_derivatives(dtype):
    """In every region of the approximations."""
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-7, "atol": 1e-7}
    alpha = torch.rand(300) * 12 + 0.01
    alpha = torch.cat([alpha, alpha * 20])
    check(
        torch._standard_gamma_grad, alpha.to(dtype), torch._standard_gamma(alpha).to(dtype), **close
    )
    alpha = torch.rand(300, 3) * 12 + 0.01
    x = torch._sample_dirichlet(alpha).to(dtype)
    alpha = alpha.to(dtype)
    check(torch._dirichlet_grad, x, alpha, alpha.sum(-1, True).expand(300, 3), **close)


def test_layouts():
    """Nothing of the CPU's numbers is in these."""
    x, p = torch.rand(3, 4).t() + 0.5, torch.rand(4, 3)
    check(lambda x: torch.poisson(x) * 0, x)
    check(lambda x: torch._standard_gamma(x) * 0, x)
    check(lambda x: torch._sample_dirichlet(x) * 0, x)
    check(lambda x, p: torch.binomial(x, p) * 0, x, p)
    check(lambda x: torch._standard_gamma(x), torch.tensor([1]))


def test_reparametrized_samples_have_gradients():
    for make in (
        lambda a: torch.distributions.Gamma(a, 2 * a),
        lambda a: torch.distributions.Beta(a, a + 1),
        lambda a: torch.distributions.Dirichlet(a),
        lambda a: torch.distributions.StudentT(a + 2),
    ):
        alpha = torch.tensor([0.5, 2.0, 7.0], device="tpu", requires_grad=True)
        make(alpha).rsample((4,)).sum().backward()
        assert alpha.grad.isfinite().all()
