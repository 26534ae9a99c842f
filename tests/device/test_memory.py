"""Memory statistics."""

import gc

import pytest
import torch

MIB = 2**20


@pytest.fixture(autouse=True)
def clean():
    gc.collect()
    torch.tpu.init()
    torch.tpu.reset_peak_memory_stats()


def test_allocated_follows_storages():
    before = torch.tpu.memory_allocated()
    x = torch.empty(MIB, device="tpu")
    assert torch.tpu.memory_allocated() == before + 4 * MIB
    view = x[10:]
    del x
    assert torch.tpu.memory_allocated() == before + 4 * MIB
    del view
    assert torch.tpu.memory_allocated() == before
    assert torch.tpu.max_memory_allocated() == before + 4 * MIB
    torch.tpu.reset_peak_memory_stats()
    assert torch.tpu.max_memory_allocated() == before


def test_results_are_counted():
    x = torch.ones(MIB, device="tpu")
    before = torch.tpu.memory_allocated()
    y = x + 1
    assert torch.tpu.memory_allocated() == before + 4 * MIB
    y.add_(1)
    assert torch.tpu.memory_allocated() == before + 4 * MIB


def test_resized_storages_are_counted():
    x = torch.empty(4, device="tpu")
    before = torch.tpu.memory_allocated()
    x.resize_(MIB)
    assert torch.tpu.memory_allocated() == before + 4 * (MIB - 4)
    x.untyped_storage().resize_(0)
    assert torch.tpu.memory_allocated() == before - 16


def test_stats_have_cudas_names():
    stats = torch.tpu.memory_stats()
    for name in ("allocated_bytes", "reserved_bytes", "active_bytes", "allocation", "segment"):
        for part in ("current", "peak", "allocated", "freed"):
            assert isinstance(stats[f"{name}.all.{part}"], int)
    assert stats["num_ooms"] >= 0 and stats["num_alloc_retries"] == 0
    assert stats["allocated_bytes.all.current"] == torch.tpu.memory_allocated()


def test_accumulated_stats():
    torch.tpu.reset_accumulated_memory_stats()
    x = torch.empty(MIB, device="tpu")
    del x
    stats = torch.tpu.memory_stats()
    assert stats["allocated_bytes.all.allocated"] == 4 * MIB
    assert stats["allocated_bytes.all.freed"] == 4 * MIB
    assert stats["allocation.all.allocated"] == 1


def test_accelerator_says_the_same():
    x = torch.empty(MIB, device="tpu")
    assert torch.accelerator.memory_allocated() == torch.tpu.memory_allocated()
    assert torch.accelerator.max_memory_allocated() == torch.tpu.max_memory_allocated()
    assert torch.accelerator.memory_reserved() == torch.tpu.memory_reserved()
    ours, theirs = torch.tpu.memory_stats(), torch.accelerator.memory_stats()
    assert ours["allocated_bytes.all.current"] == theirs["allocated_bytes.all.current"]
    torch.accelerator.reset_peak_memory_stats()
    torch.accelerator.reset_accumulated_memory_stats()
    torch.accelerator.empty_cache()
    assert torch.accelerator.get_memory_info()[1] == torch.tpu.mem_get_info()[1]
    del x


def test_mem_get_info():
    free, total = torch.tpu.mem_get_info()
    x = torch.empty(MIB, device="tpu")
    assert torch.tpu.mem_get_info() == (free - 4 * MIB, total)
    del x


def test_summary():
    text = torch.tpu.memory_summary()
    assert "tpu:0 memory summary" in text and "Allocated memory" in text
    assert len({len(line) for line in text.splitlines()}) == 1
    assert torch.tpu.memory_summary(abbreviated=True) == torch.tpu.memory_summary("tpu:0")


def test_snapshot(tmp_path):
    import pickle

    x = torch.empty(12345, dtype=torch.uint8, device="tpu")
    torch.tpu.memory._record_memory_history()
    snapshot = torch.tpu.memory._snapshot()
    segment = next(s for s in snapshot["segments"] if s["address"] == x.data_ptr())
    assert segment["total_size"] == 12345
    assert segment["blocks"][0]["state"] == "active_allocated"
    torch.tpu.memory._dump_snapshot(str(tmp_path / "snapshot.pickle"))
    loaded = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    assert loaded.keys() == snapshot.keys()
    torch.tpu.memory._record_memory_history(enabled=None)


def test_names_that_do_nothing():
    torch.tpu.empty_cache()
    torch.tpu.ipc_collect()
    assert torch.tpu.get_allocator_backend() == "pjrt"


def test_out_of_memory():
    with pytest.raises(torch.OutOfMemoryError, match="tpu:0 is out of memory: tried to allocate"):
        torch.empty(1024**5, device="tpu")
    ooms = torch.tpu.memory_stats()["num_ooms"]
    assert ooms > 0
    with pytest.raises(torch.OutOfMemoryError):
        torch.zeros(1024**5, device="tpu")
    assert torch.tpu.memory_stats()["num_ooms"] > ooms
    assert (torch.ones(2, device="tpu") + 1).tolist() == [2, 2]
    assert torch.tpu.OutOfMemoryError is torch.OutOfMemoryError


def test_fraction():
    assert torch.tpu.get_per_process_memory_fraction() == 1
    free, total = torch.tpu.mem_get_info()
    torch.tpu.set_per_process_memory_fraction((total - free + 8 * MIB) / total)
    try:
        x = torch.empty(MIB, device="tpu")
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(2 * MIB, device="tpu")
        del x
    finally:
        torch.tpu.set_per_process_memory_fraction(1.0, "tpu:0")
    with pytest.raises(ValueError, match="Allowed range: 0~1"):
        torch.tpu.set_per_process_memory_fraction(1.5)


def test_limit(run_python):
    run_python(
        """
        import torch
        assert torch.tpu.mem_get_info() == (16 << 20, 16 << 20)
        x = torch.empty(3 << 20, device="tpu")
        try:
            torch.empty(2 << 20, device="tpu")
        except torch.OutOfMemoryError as error:
            assert "of 0.02 GiB are in use" in str(error), error
        else:
            raise AssertionError("no error")
        del x
        torch.empty(4 << 20, device="tpu")
        """,
        TORCH_TPU_MEMORY_LIMIT_MB="16",
    )
