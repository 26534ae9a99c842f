"""The --full flag of the operator tests."""

import os

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--full", action="store_true", help="all samples and dtypes of every operator (hours)"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--full", False):
        os.environ["TORCH_TPU_TEST_FULL"] = "1"
