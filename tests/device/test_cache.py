"""The disk cache as users meet it: ``python -m torch_tpu.cache``, damaged files, small bounds of
the programs in memory."""

import re
import shutil
from pathlib import Path

import pytest

SINES = """
import torch
x = torch.arange(6.0, device="tpu")
print(x.sin().cpu().sum().item(), x.cos().cpu().sum().item())
c = torch.tpu.counters()
print(c["compiles"], c["disk_cache_hits"])
"""


def command(run_python, *arguments, folder, status=0, **env):
    code = f"import sys; from torch_tpu import cache; sys.exit(cache.main({list(arguments)!r}))"
    return run_python(code, status=status, TORCH_TPU_CACHE_DIR=str(folder), **env).stdout


def sines(run_python, folder):
    """Runs SINES with this folder: (what it computed, programs compiled, programs loaded)."""
    result = run_python(SINES, TORCH_TPU_CACHE_DIR=str(folder))
    assert result.stderr == ""
    numbers, counts = result.stdout.splitlines()
    return numbers, *map(int, counts.split())


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return tmp_path_factory.mktemp("cache"), []


@pytest.fixture
def filled(run_python, tmp_path, original):
    """A folder with the programs of SINES, and what these compute."""
    folder, numbers = original
    if not numbers:
        first, compiles, _ = sines(run_python, folder)
        assert compiles == len(programs(folder)) > 1
        numbers.append(first)
    copy = tmp_path / "cache"
    shutil.copytree(folder, copy)
    return copy, numbers[0]


def programs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.exe"))


def test_stats(run_python, filled):
    folder, _ = filled
    (folder / ("0" * 32 + ".exe")).write_text("not a program")
    (folder / "notes.txt").write_text("the user's")
    text = command(run_python, "stats", folder=folder, TORCH_TPU_CACHE_SIZE_MB="77")
    count = len(programs(folder))
    assert re.search(rf"^folder +{re.escape(str(folder))}$", text, re.M)
    assert re.search(rf"^files +{count}$", text, re.M)
    assert "of at most 77.0 MiB" in text
    assert re.search(rf"^plugin +(build-id|hash):[0-9a-f]+: {count - 1} files", text, re.M)
    assert re.search(r"^ +damaged: 1 files", text, re.M)


def test_stats_of_nothing(run_python, tmp_path):
    text = command(run_python, "stats", folder=tmp_path / "missing")
    assert "files   0" in text


def test_clear_removes_its_own_files_only(run_python, filled):
    folder, numbers = filled
    foreign = {"notes.txt", "model.exe", ".tmp", "1.2.tmp", "plugin", "a" * 32 + ".exe.bak"}
    for name in foreign:
        (folder / name).write_text("the user's")
    (folder / "folder").mkdir()
    (folder / "folder" / ("0" * 32 + ".exe")).write_text("the user's")
    (folder / ("1" * 32 + ".exe")).symlink_to(folder / "notes.txt")
    (folder / ".12.34.tmp").write_text("half a program")
    text = command(run_python, "clear", folder=folder)
    assert text.startswith("removed ")
    left = {path.name for path in folder.iterdir()}
    assert left == foreign | {"folder", "1" * 32 + ".exe"}
    assert (folder / "folder" / ("0" * 32 + ".exe")).exists()
    assert sines(run_python, folder)[0] == numbers


def test_warm_a_folder(run_python, filled, tmp_path):
    folder, numbers = filled
    other = tmp_path / "other"
    text = command(run_python, "warm", str(folder), folder=other)
    count = len(programs(folder))
    assert f"took in {count} programs, refused 0" in text
    assert [p.name for p in programs(other)] == [p.name for p in programs(folder)]
    assert sines(run_python, other) == (numbers, 0, count)


def test_warm_refuses_what_is_not_for_this_machine(run_python, filled, tmp_path):
    folder, _ = filled
    good, *_ = programs(folder)
    content = good.read_bytes()
    bad = {
        "text.exe": (b"hello", "not a program file"),
        "cut.exe": (content[:-10], "not a program file"),
        "flipped.exe": (content[:-10] + b"0123456789", "damaged"),
    }
    paths = [tmp_path / name for name in bad]
    for path in paths:
        path.write_bytes(bad[path.name][0])
    other = tmp_path / "other"
    arguments = [str(p) for p in (good, *paths, tmp_path / "missing")]
    text = command(run_python, "warm", *arguments, folder=other, status=1)
    assert "took in 1 programs, refused 4" in text
    for path in paths:
        assert re.search(f"{re.escape(str(path))}: {bad[path.name][1]}", text)
    assert "missing: no such file or folder" in text
    assert [p.name for p in programs(other)] == [good.name]


def test_off(run_python, tmp_path):
    text = command(run_python, "stats", folder=tmp_path, status=1, TORCH_TPU_CACHE="0")
    assert "the disk cache is off" in text


def test_damaged_programs_are_compiled_anew(run_python, filled):
    folder, numbers = filled
    files = programs(folder)
    for i, path in enumerate(files):
        content = bytearray(path.read_bytes())
        if i % 2:
            content[len(content) * i // len(files)] ^= 255
            path.write_bytes(content)
        else:
            path.write_bytes(content[: len(content) // 2])
    assert sines(run_python, folder) == (numbers, len(files), 0)
    assert sines(run_python, folder) == (numbers, 0, len(files))


def test_folder_that_cannot_be_made(run_python, filled, tmp_path):
    _, numbers = filled
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", "/proc/self/cache"):
        assert sines(run_python, folder)[0] == numbers


def test_few_programs_in_memory(run_python, tmp_path):
    """Programs that are dropped are loaded again, and numbers stay."""
    code = """
    import torch
    for round in range(3):
        for n in range(2, 40):
            x = torch.arange(float(n), device="tpu")
            assert x.sum().item() == n * (n - 1) / 2
    c = torch.tpu.counters()
    print(c["compiles"], c["disk_cache_hits"])
    """
    out = run_python(code, TORCH_TPU_CACHE_DIR=str(tmp_path), TORCH_TPU_PROGRAM_CACHE_MB="1").stdout
    compiles, loaded = map(int, out.split())
    assert compiles == 2 * 38
    assert loaded > 38
