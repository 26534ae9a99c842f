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


def test_requires_grad():
    with pytest.raises(BufferError, match="require gradient"):
        torch.tpu.to_dlpack(torch.ones(2, device="tpu", requires_grad=True))
