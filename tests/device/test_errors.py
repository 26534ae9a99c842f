"""Errors: type and text of each."""

import pytest
import torch


def test_mixed_devices():
    with pytest.raises(
        RuntimeError, match="Expected all tensors to be on the same device"
    ) as error:
        torch.ones(2, device="tpu") + torch.ones(2)
    assert "tpu:0" in str(error.value) and "cpu" in str(error.value)


def test_mixed_devices_in_a_product():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.ones(2, 2, device="tpu") @ torch.ones(2, 2)


def test_wrong_dtype():
    x = torch.ones(2, 2, device="tpu")
    with pytest.raises(RuntimeError, match="(same dtype|Double|float64)"):
        x @ x.double()
    with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output"):
        torch.ones(2, dtype=torch.int32, device="tpu").add_(0.5)


def test_index_out_of_range_is_told_at_the_next_read():
    x = torch.ones(3, device="tpu")
    y = x[torch.tensor([0, 7], device="tpu")]
    with pytest.raises(IndexError, match="index 7 is out of range") as error:
        y.tolist()
    assert "TORCH_TPU_LAUNCH_BLOCKING=1" in str(error.value)
    assert (x + 1).tolist() == [2, 2, 2]


def test_index_out_of_range_at_synchronize():
    torch.ones(3, device="tpu").index_select(0, torch.tensor([5], device="tpu"))
    with pytest.raises(IndexError, match="index 5 is out of range"):
        torch.tpu.synchronize()


def test_index_out_of_range_in_debug_mode(run_python):
    run_python(
        """
        import torch
        x, index = torch.ones(3, device="tpu"), torch.tensor([0, 7], device="tpu")
        try:
            x[index]
        except IndexError as error:
            assert "index 7 is out of range for dimension 0 of size 3" in str(error), error
        else:
            raise AssertionError("no error")
        """,
        TORCH_TPU_LAUNCH_BLOCKING="1",
    )


def test_data_is_not_addressable():
    x = torch.ones(2, device="tpu")
    with pytest.raises(TypeError, match=r"can't convert tpu:0 device type tensor to numpy"):
        x.numpy()
