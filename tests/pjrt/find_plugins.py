"""Prints the CPU plugins of this Python environment, as a CMake list."""

import importlib.util
import pathlib


def find(package):
    try:
        spec = importlib.util.find_spec(package)
    except ModuleNotFoundError:
        return []
    if spec is None or spec.origin is None:
        return []
    return sorted(str(path) for path in pathlib.Path(spec.origin).parent.glob("*.so"))


PACKAGES = ("xla_plugins.xla_cpu_pjrt", "fastatomstruct_xla_cpu", "lammps_jax_pjrt_cpu")
print(";".join(path for package in PACKAGES for path in find(package)))
