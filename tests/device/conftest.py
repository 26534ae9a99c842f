"""Tests of the device module. Many need a process of their own: what a fresh import does, what
happens without a plugin, after a fork."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess]:
    """Runs code in a new interpreter: ``run_python(code, NAME="value", ...)``, with the given
    environment variables added; None removes one. Fails the test if it exits with another status
    than ``status``."""

    def run(code: str, *, status: int = 0, **env: str | None) -> subprocess.CompletedProcess:
        full = {k: v for k, v in os.environ.items() if not k.startswith("TORCH_TPU_")}
        if "TORCH_TPU_CACHE_DIR" in os.environ:
            full["TORCH_TPU_CACHE_DIR"] = os.environ["TORCH_TPU_CACHE_DIR"]
        full.update({k: v for k, v in env.items() if v is not None})
        for name in (k for k, v in env.items() if v is None):
            full.pop(name, None)
        result = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env=full,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert result.returncode == status, result.stdout + result.stderr
        return result

    return run
