"""Pinned host memory, and loaders that use it."""

import torch
from torch.utils.data import DataLoader, TensorDataset


def test_pin_memory():
    x = torch.arange(10.0)
    assert not x.is_pinned()
    pinned = x.pin_memory()
    assert pinned.is_pinned() and pinned.device.type == "cpu"
    assert torch.equal(pinned, x)
    assert pinned[3:].is_pinned()
    assert pinned.pin_memory() is pinned
    assert pinned.data_ptr() % 64 == 0
    assert torch.empty(7, pin_memory=True).is_pinned()
    assert torch.empty(0).pin_memory().numel() == 0


def test_device_tensors_are_not_pinned():
    assert not torch.ones(2, device="tpu").is_pinned()


def test_pinned_copies():
    x = torch.arange(1000.0).pin_memory()
    y = x.to("tpu", non_blocking=True)
    x.zero_()  # not seen by the copy
    assert torch.equal(y.cpu(), torch.arange(1000.0))
    back = torch.empty(1000, pin_memory=True)
    back.copy_(y, non_blocking=True)
    torch.tpu.synchronize()
    assert torch.equal(back, torch.arange(1000.0))


def test_freed_memory_is_not_pinned():
    address = torch.empty(1 << 22, pin_memory=True).data_ptr()
    other = torch.empty(1 << 22)
    assert other.data_ptr() != address or not other.is_pinned()


def test_storage_pin_memory():
    storage = torch.arange(4, dtype=torch.uint8).untyped_storage()
    assert storage.pin_memory().is_pinned()


def test_data_loader():
    data = TensorDataset(torch.arange(20.0).reshape(10, 2), torch.arange(10))
    total = 0
    for x, y in DataLoader(data, batch_size=4, pin_memory=True):
        assert x.is_pinned() and y.is_pinned()
        total += x.to("tpu", non_blocking=True).sum().item() + y.to("tpu").sum().item()
    assert total == sum(range(20)) + sum(range(10))


def test_data_loader_with_workers_and_a_running_device(run_python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    torch.tpu.init()
    data = TensorDataset(torch.arange(20.0).reshape(10, 2))
    total = 0
    for (x,) in DataLoader(data, batch_size=2, num_workers=2, pin_memory=True):
        assert x.is_pinned()
        total += x.to("tpu").sum().item()
    assert total == sum(range(20)), total
""")
    run_python(f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')")
