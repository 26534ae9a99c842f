"""Saving, loading, pickling, copying and printing."""

import copy
import io
import pickle

import pytest
import torch
from torch import nn


def roundtrip(obj, **kwargs):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **kwargs)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
)
def test_save_and_load(dtype):
    x = torch.arange(6).reshape(2, 3).to(dtype).to("tpu")
    y = roundtrip(x)
    assert y.device == torch.device("tpu:0") and y.dtype == dtype
    assert torch.equal(y.cpu(), x.cpu())


def test_map_location():
    x = torch.arange(3.0, device="tpu")
    assert roundtrip(x, map_location="cpu").device.type == "cpu"
    assert roundtrip(x.cpu(), map_location="tpu").device == torch.device("tpu:0")
    assert roundtrip(x.cpu(), map_location=torch.device("tpu:0")).tolist() == [0, 1, 2]
    assert roundtrip(x, map_location={"tpu:0": "cpu"}).device.type == "cpu"
    assert roundtrip(x, map_location=lambda storage, where: storage).device.type == "cpu"


def test_load_without_the_device_that_it_was_on(run_python, tmp_path):
    path = tmp_path / "x.pt"
    run_python(
        f"import torch; torch.save(torch.ones(2, device='tpu:1'), {str(path)!r})",
        TORCH_TPU_CPU_DEVICES="2",
    )
    with pytest.raises(RuntimeError, match="tpu.*map_location"):
        torch.load(path)
    assert torch.load(path, map_location="tpu:0").tolist() == [1, 1]


def test_views_share_their_storage_after_loading():
    x = torch.arange(6.0, device="tpu")
    a, b = roundtrip([x[1:4], x[2:]])
    a[1] = 10
    assert b.tolist() == [10, 3, 4, 5]


def test_strides_are_kept():
    x = torch.arange(6.0, device="tpu").reshape(2, 3).t()
    assert roundtrip(x).stride() == x.stride()
    assert torch.equal(roundtrip(x), x)


def test_module_and_optimizer_state():
    model = nn.Linear(3, 2).to("tpu")
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3, device="tpu")).sum().backward()
    optimizer.step()
    state = roundtrip({"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    other = nn.Linear(3, 2).to("tpu")
    other.load_state_dict(state["model"])
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)
    torch.optim.AdamW(other.parameters()).load_state_dict(state["optimizer"])


def test_pickle():
    x = torch.arange(3.0, device="tpu", requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert y.device == x.device and y.requires_grad and y.tolist() == [0, 1, 2]


def test_legacy_files():
    x = torch.arange(6.0, device="tpu")
    file = io.BytesIO()
    torch.save([x, x[2:]], file, _use_new_zipfile_serialization=False)
    file.seek(0)
    a, b = torch.load(file)
    assert a.device == x.device and a.tolist() == x.tolist()
    b.zero_()
    assert a.tolist() == [0, 1, 0, 0, 0, 0]


def test_deepcopy():
    x = torch.arange(6.0, device="tpu")
    y = copy.deepcopy(x)
    y.add_(1)
    assert x.tolist() == [0, 1, 2, 3, 4, 5] and y.device == x.device
    a, b = copy.deepcopy([x, x[2:4]])
    b.zero_()
    assert a.tolist() == [0, 1, 0, 0, 4, 5]
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to("tpu")
    copied = copy.deepcopy(model)
    assert all(p.device.type == "tpu" for p in copied.parameters())
    assert copied[0].weight.data_ptr() != model[0].weight.data_ptr()


def test_storage_copies():
    storage = torch.arange(4, dtype=torch.uint8, device="tpu").untyped_storage()
    assert storage.cpu().tolist() == [0, 1, 2, 3]
    assert storage.clone().device.type == "tpu"
    assert torch.arange(4, dtype=torch.uint8).untyped_storage().tpu().device.type == "tpu"
    assert storage.is_tpu and storage.device == torch.device("tpu:0")


def test_printing():
    x = torch.tensor([[1.5, 2.0], [float("nan"), -1.0]], device="tpu")
    assert repr(x) == repr(x.cpu())[:-1] + ", device='tpu:0')"
    assert "device='tpu:0'" in repr(torch.empty(0, device="tpu"))
    assert "requires_grad=True" in repr(torch.ones(1, device="tpu", requires_grad=True))
    assert f"{torch.tensor(2.5, device='tpu'):.2f}" == "2.50"
    assert "device='tpu:0'" in repr(torch.arange(5000, device="tpu"))
    assert "tpu" in repr(torch.nn.Parameter(torch.ones(2, device="tpu")))


def test_safetensors(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    tensors = {"a": torch.arange(3.0, device="tpu"), "b": torch.ones(2, 2, device="tpu").bfloat16()}
    path = tmp_path / "x.safetensors"
    safetensors.save_file(tensors, path)
    loaded = safetensors.load_file(path)  # it takes no device names that it does not know
    a, b = loaded["a"].to("tpu"), loaded["b"].to("tpu")
    assert torch.equal(a, tensors["a"]) and torch.equal(b, tensors["b"])
    assert b.dtype == torch.bfloat16


def test_safetensors_sees_shared_weights(tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    x = torch.ones(4, device="tpu")
    with pytest.raises(RuntimeError, match="share memory"):
        safetensors.save_file({"a": x, "b": x}, tmp_path / "x.safetensors")
    model = nn.Linear(4, 4, bias=False).to("tpu")
    model.tied = model.weight
    safetensors.save_model(model, str(tmp_path / "m.safetensors"))
    safetensors.load_model(model, str(tmp_path / "m.safetensors"))
