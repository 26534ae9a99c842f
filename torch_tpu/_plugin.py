"""Finds the PJRT plugin that the device runs on, without loading or importing it.

``TORCH_TPU_PJRT_PLUGIN`` (read by the C++ side) comes before everything here. Then libtpu, if this
machine has a TPU; then an installed CPU plugin of XLA.
"""

from __future__ import annotations

import glob
import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

# Package and library of the known CPU plugins, best first.
CPU_PLUGINS = (
    ("fastatomstruct_xla_cpu", "libpjrt_cpu.so"),
    ("xla_plugins.xla_cpu_pjrt", "xla_cpu_pjrt.so"),
)

INSTALL_CPU_PLUGIN = "pip install fastatomstruct-xla-cpu"


@dataclass(frozen=True)
class Choice:
    """``path`` of the library, its ``kind`` ("libtpu" or "cpu"), or the ``problem`` that there is
    none."""

    path: str = ""
    kind: str = ""
    problem: str = ""


def _library_of(package: str, library: str) -> str | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder, library)
        if path.is_file():
            return str(path)
    return None


def has_tpu() -> bool:
    """True if this machine has TPU devices: /dev/accel* (up to v4) or /dev/vfio/<n> (later)."""
    if glob.glob("/dev/accel*"):
        return True
    try:
        return any(re.fullmatch(r"\d+", name) for name in os.listdir("/dev/vfio"))
    except OSError:
        return False


def find_libtpu() -> str | None:
    """Path of libtpu.so: ``TPU_LIBRARY_PATH``, or the installed package libtpu."""
    path = os.environ.get("TPU_LIBRARY_PATH")
    if path:
        return path
    return _library_of("libtpu", "libtpu.so")


def find_cpu_plugin() -> str | None:
    """Path of an installed CPU plugin of XLA."""
    for package, library in CPU_PLUGINS:
        path = _library_of(package, library)
        if path:
            return path
    return None


def choose() -> Choice:
    """The plugin to use if the environment names none. Never raises."""
    tpu = has_tpu()
    libtpu = find_libtpu() if tpu else None
    if libtpu:
        return Choice(libtpu, "libtpu")
    cpu = find_cpu_plugin()
    if cpu:
        return Choice(cpu, "cpu")
    if tpu:
        problem = "this machine has a TPU, but libtpu is not installed (pip install libtpu)"
    else:
        problem = (
            "this machine has no TPU, and no CPU plugin of XLA is installed "
            f"({INSTALL_CPU_PLUGIN}, or set TORCH_TPU_PJRT_PLUGIN to the path of a plugin)"
        )
    return Choice(problem=problem)
