"""DLPack goes through host memory."""

import pytest
import torch

numpy = pytest.importorskip("numpy")


@pytest.mark.parametrize("dtype", [torch.float32, torch.int16, torch.complex64, torch.uint8])
def test_to_numpy(dtype):
    x = torch.arange(6).reshape(2, 3).to(dtype).to("tpu")
    array = numpy.from_dlpack(torch.tpu.to_dlpack(x))
    assert array.shape == (2, 3) and array.tolist() == x.tolist()


def test_to_torch():
    x = torch.arange(3.0, device="tpu")
    y = torch.from_dlpack(torch.tpu.to_dlpack(x))
    assert y.device.type == "cpu" and y.tolist() == [0, 1, 2]
    y.zero_()
    assert x.tolist() == [0, 1, 2]


def test_conjugated():
    x = torch.tensor([1 + 2j], device="tpu").conj()
    assert numpy.from_dlpack(torch.tpu.to_dlpack(x)).tolist() == [1 - 2j]


def test_from_numpy():
    array = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    x = torch.from_dlpack(array, device="tpu")
    assert x.device.type == "tpu" and x.tolist() == array.tolist()


def test_capsules_share_memory_within_torch():
    x = torch.arange(4.0, device="tpu")
    y = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x))
    y.add_(1)
    assert x.tolist() == [1, 2, 3, 4] and y.data_ptr() == x.data_ptr()
    x.mul_(2)
    assert y.tolist() == [2, 4, 6, 8]
    del x
    assert (y + 1).tolist() == [3, 5, 7, 9]


def test_a_capsule_of_a_slice_is_refused():
    x = torch.arange(4.0, device="tpu")
    y = torch.from_dlpack(torch.utils.dlpack.to_dlpack(x[1:]))
    with pytest.raises(RuntimeError, match="is not the start of one of its storages"):
        y.tolist()


def test_requires_grad():
    with pytest.raises(BufferError, match="require gradient"):
        torch.tpu.to_dlpack(torch.ones(2, device="tpu", requires_grad=True))
