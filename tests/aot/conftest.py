"""Programs that several files look at, compiled once."""

import pytest
import torch

from torch_tpu import _plugin, aot

SIDE = 4096


@pytest.fixture(scope="session")
def libtpu():
    path = _plugin.find_libtpu()
    if path is None:
        pytest.skip("libtpu is not installed (pip install libtpu)")
    return path


def products(x, y):
    """A product that costs more than all else."""
    return torch.tanh(x @ y).sum(0)


@pytest.fixture(scope="session", params=["v6e:1x1", "tpu7x:1x1x1"])
def product(request, libtpu):
    square = torch.empty(SIDE, SIDE, dtype=torch.bfloat16, device="meta")
    return aot.compile(products, (square, square), request.param)


@pytest.fixture(scope="session")
def too_large(libtpu):
    """A forward program of 149 GiB."""
    with torch.device("meta"):
        model, x = torch.nn.Linear(200_000, 200_000), torch.empty(8, 200_000)
    return aot.compile(model, (x,), "v5e:1x1")
