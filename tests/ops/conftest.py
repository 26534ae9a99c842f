"""The flags of the operator tests: all of them, or a sample."""

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="all samples and dtypes of every operator (hours)"
    )
    parser.addoption("--every", type=int, default=1, help="N: only each Nth of the tests")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items[:] = items[:: config.getoption("--every", 1)]


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--full", False):
        os.environ["TORCH_TPU_TEST_FULL"] = "1"
