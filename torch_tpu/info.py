"""``python -m torch_tpu.info``: what the tpu device runs on, and what is wrong if something is."""

from __future__ import annotations

import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

import torch_tpu
from torch_tpu import _load, _plugin


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _package_of(path: str) -> str:
    """Name and version of the installed distribution that a file belongs to, if any."""
    try:
        for package, _ in [*_plugin.CPU_PLUGINS, ("libtpu", "")]:
            if f"/{package.replace('.', '/')}/" in path:
                top = package.split(".")[0]
                for name in metadata.packages_distributions().get(top, []):
                    return f" ({name} {metadata.version(name)})"
    except metadata.PackageNotFoundError:
        pass
    return ""


def _cache(config: dict[str, Any]) -> str:
    if not config["disk_cache"]:
        return "off"
    folder = Path(config["cache_dir"])
    files = [f for f in folder.rglob("*") if f.is_file()] if folder.is_dir() else []
    size = sum(f.stat().st_size for f in files)
    limit = _gib(config["cache_bytes"])
    return f"{folder} ({len(files)} files, {size / 2**20:.1f} MiB of at most {limit})"


def report() -> tuple[list[str], list[str]]:
    """Starts the runtime if it can. Returns (lines of the report, problems)."""
    lines = [
        f"torch_tpu     {torch_tpu.__version__} in {Path(__file__).parent}",
        f"torch         {torch.__version__}",
        f"python        {platform.python_version()}, {platform.platform()}",
    ]
    problems: list[str] = []
    if _load.load_problem is not None:
        return lines, [_load.load_problem]
    C = _load.C
    try:
        config = C.config()
        lines.append(f"cache         {_cache(config)}")
    except Exception as error:
        return lines, [str(error)]

    choice = C.plugin_choice()
    lines.append(f"TPU           {'found' if _plugin.has_tpu() else 'none on this machine'}")
    if not choice["path"]:
        return lines, [f"no PJRT plugin: {choice['problem']}"]
    origin = _package_of(choice["path"])
    if config["plugin_path"]:
        origin += " (from TORCH_TPU_PJRT_PLUGIN)"
    lines.append(f"plugin        {choice['path']}{origin}")
    if not torch.tpu.is_available():
        problems.append(f"the plugin cannot be read: {choice['path']}")
    try:
        info = C.plugin_info()
        version = ".".join(map(str, info["api_version"]))
        stablehlo = info["attributes"].get("stablehlo_current_version", "unknown")
        lines.append(
            f"platform      {info['platform_name']}, PJRT C API {version}, StableHLO {stablehlo}"
        )
        for line in info["platform_version"].splitlines():
            lines.append(f"              {line}")
        for index in range(torch.tpu.device_count()):
            name = torch.tpu.get_device_name(index)
            free, total = torch.tpu.mem_get_info(index)
            lines.append(f"tpu:{index:<10}{name}, {_gib(total)}, {_gib(free)} free")
    except Exception as error:
        problems.append(str(error))
    settings = sorted(name for name in os.environ if name.startswith("TORCH_TPU_"))
    lines += [f"{name}={os.environ[name]}" for name in settings]
    return lines, problems


def main() -> int:
    """Prints the report. Returns 0 if the device can be used, else 1."""
    lines, problems = report()
    print("\n".join(lines))
    for problem in problems:
        print(f"PROBLEM       {problem}")
    if not problems:
        print("ok")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
