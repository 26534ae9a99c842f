"""TORCH_TPU_DUMP_TO: the texts of programs as files."""

import pytest

CODE = """
import torch
print(torch.ones(3, device="tpu").asinh()[0].item())
torch.ones(3, device="tpu").asinh()
print(torch.tpu.counters()["disk_cache_hits"] > 0)
"""


def test_each_program_is_a_file(run_python, tmp_path):
    """Also one that comes from the disk cache; a file that is there is left alone."""
    first, second, cache = tmp_path / "a" / "b", tmp_path / "c", str(tmp_path / "cache")
    told = run_python(CODE, TORCH_TPU_DUMP_TO=str(first), TORCH_TPU_CACHE_DIR=cache)
    assert told.stdout.split()[1] == "False"
    names = sorted(file.name for file in first.iterdir())
    (asinh,) = [name for name in names if name.startswith("asinh.")]
    assert asinh.endswith(".mlir")
    text = (first / asinh).read_text()
    assert text.startswith("module @asinh {")
    assert text.count("func.func public @main") == 1
    told = run_python(CODE, TORCH_TPU_DUMP_TO=str(second), TORCH_TPU_CACHE_DIR=cache)
    assert told.stdout.split()[1] == "True"
    assert sorted(file.name for file in second.iterdir()) == names
    assert (second / asinh).read_text() == text
    (second / asinh).write_text("mine")
    run_python(CODE, TORCH_TPU_DUMP_TO=str(second), TORCH_TPU_CACHE_DIR=cache)
    assert (second / asinh).read_text() == "mine"


@pytest.mark.parametrize("folder", ["/dev/null/programs", "/proc/programs"])
def test_a_folder_that_cannot_be_written_is_told_once(run_python, folder):
    told = run_python(CODE, TORCH_TPU_DUMP_TO=folder)
    assert told.stdout.startswith("0.88")
    assert told.stderr.count(f"TORCH_TPU_DUMP_TO={folder} cannot be written") == 1
