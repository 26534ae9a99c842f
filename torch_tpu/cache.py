"""``python -m torch_tpu.cache stats|clear|warm``: the cache of compiled programs on disk."""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from pathlib import Path

import torch  # noqa: F401  makes the device known

from torch_tpu import _load

# Names that the cache gives: programs, files that are being written, notes about plugins.
_PROGRAM = re.compile(r"[0-9a-f]{32}\.exe")
_OURS = re.compile(r"[0-9a-f]{32}\.exe|\.\d+\.\d+\.tmp|\d+\.plugin(\.\d+\.tmp)?")


def _files(folder: Path, name: re.Pattern[str]) -> list[Path]:
    """Files of the folder itself with such a name; no links, no folders."""
    if not folder.is_dir():
        return []
    return sorted(
        path
        for path in folder.iterdir()
        if name.fullmatch(path.name) and path.is_file() and not path.is_symlink()
    )


def _mib(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:  # another process has removed it
        return 0


def stats(folder: Path, bound: int) -> list[str]:
    """Lines that tell what is in the folder."""
    count, size = Counter[str](), Counter[str]()
    for path in _files(folder, _PROGRAM):
        plugin = _load.C.plugin_of_cache_file(str(path)) or "damaged"
        count[plugin] += 1
        size[plugin] += _size(path)
    lines = [
        f"folder  {folder}",
        f"files   {count.total()}",
        f"size    {_mib(size.total())} of at most {_mib(bound)} (TORCH_TPU_CACHE_SIZE_MB)",
    ]
    for plugin in sorted(count):
        label = "        " if plugin == "damaged" else "plugin  "
        lines.append(f"{label}{plugin}: {count[plugin]} files, {_mib(size[plugin])}")
    return lines


def clear(folder: Path) -> list[str]:
    """Removes the cache's own files from the folder, and nothing else. Running processes go on:
    they compile anew."""
    removed = freed = 0
    problems = []
    for path in _files(folder, _OURS):
        size = _size(path)
        try:
            path.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            problems.append(f"{path} was not removed: {error.strerror}")
            continue
        removed += 1
        freed += size
    return [f"removed {removed} files, {_mib(freed)}, from {folder}", *problems]


def warm(sources: list[Path]) -> tuple[list[str], int]:
    """Copies programs that were compiled elsewhere into the cache: files, or all those of a folder.
    Returns what to print, and how many were refused."""
    paths = []
    refused = []
    for source in sources:
        if source.is_dir():
            paths += _files(source, _PROGRAM)
        elif source.is_file():
            paths.append(source)
        else:
            refused.append(f"{source}: no such file or folder")
    taken = 0
    for path in paths:
        try:
            _load.C.take_in_cache_file(str(path))
            taken += 1
        except ValueError as error:
            refused.append(str(error))
    return [f"took in {taken} programs, refused {len(refused)}", *refused], len(refused)


def main(arguments: list[str] | None = None) -> int:
    """Runs the command. Returns 0, or 1 if something was refused."""
    parser = argparse.ArgumentParser(prog="python -m torch_tpu.cache", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("stats", help="what is in the cache")
    commands.add_parser("clear", help="removes the cache's files, and no others")
    warming = commands.add_parser("warm", help="copies programs that were compiled elsewhere")
    warming.add_argument("source", type=Path, nargs="+", help="a program file, or a folder of them")
    options = parser.parse_args(arguments)

    if _load.load_problem is not None:
        print(_load.load_problem, file=sys.stderr)
        return 1
    config = _load.C.config()
    if not config["disk_cache"]:
        print("the disk cache is off (TORCH_TPU_CACHE=0, or there is no home folder)")
        return 1
    folder = Path(config["cache_dir"])
    status = 0
    if options.command == "stats":
        lines = stats(folder, config["cache_bytes"])
    elif options.command == "clear":
        lines = clear(folder)
    else:
        lines, status = warm(options.source)
        lines.append(f"into {folder}")
    print("\n".join(lines))
    return min(status, 1)


if __name__ == "__main__":
    sys.exit(main())
