"""Loads the C++ side, or something that says why it could not be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

# The C++ side is compiled for one minor version of torch, whose C++ interface has no stable ABI.
TORCH_VERSION = "2.13"


class _Missing:
    """Stands for ``torch_tpu._C`` where that could not be loaded. Queries say that there is no
    device; every other use raises RuntimeError."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    def is_available(self) -> bool:
        return False

    def device_count(self) -> int:
        return 0

    def started(self) -> bool:
        return False

    def in_bad_fork(self) -> bool:
        return False

    def precision(self) -> int:
        return 2

    def seed_default_generators(self, seed: int) -> None:
        pass

    def plugin_choice(self) -> dict[str, str]:
        return {"path": "", "kind": "", "problem": self._problem}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise RuntimeError(self._problem)


def _version_problem() -> str | None:
    found = torch.__version__
    if found.split("+")[0].split(".")[:2] == TORCH_VERSION.split("."):
        return None
    return (
        f"The tpu device is not available: torch_tpu was built for torch {TORCH_VERSION}, but this "
        f"is torch {found}. Install torch=={TORCH_VERSION}.*, or build torch_tpu for this torch."
    )


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _source_tree_problem() -> str | None:
    folder = Path(__file__).parent
    built = any(folder.glob("_C.*.so"))
    if built or not (folder.parent / "CMakeLists.txt").is_file():
        return None
    return (
        f"The tpu device is not available: Python imported torch_tpu from its sources in {folder}, "
        "which hide the installed package. Start Python in another folder, or install the package "
        "(pip install .) if you have not."
    )


def load() -> tuple[Any, str | None]:
    """Returns (the extension module or its stand-in, what is wrong or None). Never raises."""
    problem = _version_problem() or _source_tree_problem()
    if problem is None:
        try:
            from torch_tpu import _C

            return _C, None
        except Exception as error:
            problem = (
                "The tpu device is not available: torch_tpu._C cannot be loaded: "
                + _first_line(error)
            )
    return _Missing(problem), problem


C, load_problem = load()
