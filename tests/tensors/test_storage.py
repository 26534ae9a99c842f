"""Storages: a stable handle whose value is replaced; aliasing as on the CPU."""

import copy
import gc
import itertools

import pytest
import torch
from torch import nn


def test_data_ptr_is_stable():
    x = torch.ones(4, 6, device="tpu")
    pointer = x.data_ptr()
    assert pointer != 0
    x.add_(1)
    x[0] = 3
    x.copy_(torch.zeros(4, 6))
    x.mul_(2).t_()
    assert x.data_ptr() == pointer
    assert torch.zeros(4, 6, device="tpu").data_ptr() != pointer


def test_data_ptr_of_views():
    x = torch.ones(4, 6, device="tpu")
    assert x[1].data_ptr() == x.data_ptr() + 24
    assert x[:, 2].data_ptr() == x.data_ptr() + 8
    assert x.view(torch.int16)[0, 3].data_ptr() == x.data_ptr() + 6
    assert x.untyped_storage().data_ptr() == x[2:].untyped_storage().data_ptr()
    assert torch.empty(0, device="tpu").data_ptr() == 0


def test_live_storages_do_not_overlap():
    tensors = [torch.empty(100, device="tpu") for _ in range(50)]
    ranges = sorted((t.data_ptr(), t.data_ptr() + 400) for t in tensors)
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(ranges))


@pytest.mark.parametrize(
    "call",
    [
        lambda x, out: torch.add(x, 1, out=out),
        lambda x, out: torch.mm(x, x, out=out),
        lambda x, out: torch.cat([x[:2], x[2:]], out=out),
        lambda x, out: torch.cumsum(x, 0, out=out),
        lambda x, out: torch.index_select(x, 0, torch.arange(4, device=x.device), out=out),
        lambda x, out: torch.relu_(out.copy_(x)),
    ],
    ids=["add", "mm", "cat", "cumsum", "index_select", "copy_"],
)
def test_out_keeps_the_storage(call):
    x = torch.randn(4, 4)
    want = call(x, torch.empty(4, 4))
    out = torch.empty(4, 4, device="tpu")
    pointer, view = out.data_ptr(), out[1:]
    assert call(x.to("tpu"), out) is out
    assert out.data_ptr() == pointer
    torch.testing.assert_close(out.cpu(), want)
    torch.testing.assert_close(view.cpu(), want[1:])
    strided = torch.zeros(4, 8, device="tpu")
    call(x.to("tpu"), strided[:, ::2])
    torch.testing.assert_close(strided.cpu()[:, ::2], want)
    assert strided[:, 1::2].abs().sum().item() == 0


def test_out_is_resized():
    out = torch.empty(0, device="tpu")
    torch.add(torch.ones(2, 3, device="tpu"), 1, out=out)
    assert out.tolist() == [[2] * 3] * 2
    with pytest.warns(UserWarning, match="was resized"):
        torch.add(torch.ones(3, device="tpu"), 1, out=torch.empty(2, device="tpu"))


def test_out_that_is_an_input():
    x = torch.arange(4.0, device="tpu")
    torch.add(x, x, out=x)
    assert x.tolist() == [0, 2, 4, 6]
    a = torch.eye(3).mul(2).to("tpu")
    torch.mm(a, a.clone(), out=a)
    assert torch.equal(a.cpu(), torch.eye(3) * 4)


def test_resize_grows_and_keeps_values():
    x, y = torch.arange(4.0), torch.arange(4.0, device="tpu")
    view = y[:2]
    for size in ((2, 2), (2,), (2, 3), (0,), (4,)):
        x.resize_(size)
        y.resize_(size)
        assert (y.shape, y.stride()) == (x.shape, x.stride())
        assert y.untyped_storage().nbytes() == x.untyped_storage().nbytes()
    assert y.tolist() == [0, 1, 2, 3]
    view.add_(1)
    assert y.tolist() == [1, 2, 2, 3]


def test_resize_memory_format():
    y = torch.empty(0, device="tpu").resize_(2, 3, 4, 5, memory_format=torch.channels_last)
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_untyped_storage_resize():
    """As FSDP does: free the bytes, take them again."""
    x = torch.ones(8, device="tpu")
    before = torch.tpu.memory_allocated()
    x.untyped_storage().resize_(0)
    assert x.untyped_storage().nbytes() == 0
    assert torch.tpu.memory_allocated() == before - 32
    x.untyped_storage().resize_(32)
    x.fill_(3)
    assert x.tolist() == [3] * 8


def test_set_():
    x = torch.arange(12.0, device="tpu")
    y = torch.empty(0, device="tpu").set_(x.untyped_storage(), 2, (2, 3), (4, 1))
    assert y.tolist() == [[2, 3, 4], [6, 7, 8]]
    y.zero_()
    assert x.tolist() == [0, 1, 0, 0, 0, 5, 0, 0, 0, 9, 10, 11]
    z = torch.empty(0, device="tpu").set_(x)
    assert z.data_ptr() == x.data_ptr()
    assert z.shape == x.shape
    z.set_()
    assert z.numel() == 0
    with pytest.raises(RuntimeError, match="device|storage"):
        torch.empty(0, device="tpu").set_(torch.ones(2).untyped_storage())


def test_data_attribute():
    x = torch.zeros(4, device="tpu")
    view = x.view(2, 2)
    x.data.add_(1)
    assert view.tolist() == [[1, 1], [1, 1]]
    x.data = torch.full((4,), 7.0, device="tpu")
    assert x.tolist() == [7] * 4
    assert view.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize(
    ("dtype", "to"),
    [
        (torch.float32, torch.int32),
        (torch.float32, torch.uint8),
        (torch.int16, torch.float32),
        (torch.int64, torch.int32),
        (torch.uint8, torch.float16),
        (torch.complex64, torch.float32),
        (torch.float64, torch.complex64),
        (torch.float8_e4m3fn, torch.uint8),
    ],
    ids=str,
)
def test_dtype_views(dtype, to):
    x = torch.arange(32, dtype=torch.float32).reshape(2, 16).to(dtype)
    y = x.to("tpu")
    a, b = x.view(to), y.view(to)
    assert (b.shape, b.stride(), b.dtype) == (a.shape, a.stride(), a.dtype)
    assert b.data_ptr() == y.data_ptr()
    assert torch.equal(b.cpu().view(torch.uint8), a.view(torch.uint8))
    a[0].zero_()
    b[0].zero_()
    assert torch.equal(y.cpu().view(torch.uint8), x.view(torch.uint8))


def test_dtype_view_that_does_not_fit():
    with pytest.raises(RuntimeError, match="must be divisible"):
        torch.ones(3, dtype=torch.int16, device="tpu").view(torch.float32)
    with pytest.raises(RuntimeError, match="stride"):
        torch.ones(4, 4, device="tpu").t().view(torch.uint8)


def test_real_and_imaginary_views():
    x = torch.randn(3, 4, dtype=torch.complex64)
    y = x.to("tpu")
    for view in (lambda t: t.real, lambda t: t.imag, torch.view_as_real):
        assert torch.equal(view(y).cpu(), view(x))
        view(x).mul_(2)
        view(y).mul_(2)
        assert torch.equal(y.cpu(), x)
    pairs = torch.randn(3, 2, device="tpu")
    torch.view_as_complex(pairs).mul_(1j)
    assert pairs.shape == (3, 2)


def test_writes_through_one_view_are_seen_by_all():
    x = torch.zeros(4, 6, device="tpu")
    views = [x.t(), x.view(-1), x[1:3], x[:, ::2], x.view(2, 2, 6)]
    for i, view in enumerate(views, 1):
        view[1].fill_(i)
    y = torch.zeros(4, 6)
    for i, view in enumerate([y.t(), y.view(-1), y[1:3], y[:, ::2], y.view(2, 2, 6)], 1):
        view[1].fill_(i)
    assert torch.equal(x.cpu(), y)
    assert torch.equal(views[0].cpu(), y.t())


def test_old_value_survives_donation():
    """A clone or a copy taken before an in-place write keeps what it had."""
    x = torch.arange(6.0, device="tpu")
    y, z = x.clone(), x + 0
    same = x.detach()
    x.add_(1)
    assert y.tolist() == z.tolist() == [0, 1, 2, 3, 4, 5]
    assert same.tolist() == [1, 2, 3, 4, 5, 6]


def test_saved_tensor_changed_in_place_is_told():
    w = torch.ones(3, device="tpu", requires_grad=True)
    x = w * 2
    y = x.exp().sum() + (x * x).sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_overlapping_writes_raise():
    x = torch.zeros(3, 1, device="tpu").expand(3, 4)
    for write in (lambda: x.add_(1), lambda: x.copy_(torch.ones(3, 4, device="tpu"))):
        with pytest.raises(RuntimeError, match="single memory location"):
            write()
    y = torch.zeros(5, device="tpu")
    with pytest.raises(RuntimeError, match="single memory location"):
        torch.add(y[:4], 1, out=y[1:])


def test_memory_accounting():
    gc.collect()
    before = torch.tpu.memory_allocated()
    x = torch.empty(1 << 20, device="tpu")
    view = x[10:20]
    assert torch.tpu.memory_allocated() == before + (4 << 20)
    x = None
    assert torch.tpu.memory_allocated() == before + (4 << 20)
    view = None  # noqa: F841
    assert torch.tpu.memory_allocated() == before
    assert torch.tpu.max_memory_allocated() >= before + (4 << 20)


def test_in_place_does_not_grow_memory():
    x = torch.zeros(1 << 18, device="tpu")
    before = torch.tpu.memory_allocated()
    for _ in range(5):
        x.add_(1)
        x[3:9].mul_(2)
    assert torch.tpu.memory_allocated() == before


def test_shared_parameters():
    """Shared weights stay shared through .to(), deepcopy and a state dict."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight = model[0].weight
    model.to("tpu")
    assert model[0].weight.data_ptr() == model[1].weight.data_ptr()
    other = copy.deepcopy(model)
    assert other[0].weight is other[1].weight
    assert other[0].weight.data_ptr() != model[0].weight.data_ptr()
    assert len(list(model.parameters())) == 3


def test_deepcopy_keeps_aliasing():
    x = torch.zeros(4, device="tpu")
    a, b = copy.deepcopy([x, x[1:]])
    a.fill_(2)
    assert b.tolist() == [2, 2, 2]
    assert x.tolist() == [0] * 4


def test_storage_copies():
    x = torch.arange(4.0, device="tpu")
    host = x.untyped_storage().cpu()
    assert host.nbytes() == 16
    assert torch.empty(0).set_(host, 0, (4,)).tolist() == [0, 1, 2, 3]
    clone = x.untyped_storage().clone()
    assert clone.data_ptr() != x.data_ptr()
    assert clone.device.type == "tpu"


def test_reading_position_compiles_one_program():
    x = torch.randn(16, 8, device="tpu")
    for i in range(2):  # in Fused mode the first is one program with randn
        x[i].add_(1)
        _ = (x[i] + 1).cpu()
    torch.tpu.reset_counters()
    for i in range(2, 16):
        x[i].add_(1)
        _ = (x[i] + 1).cpu()
    assert torch.tpu.counters()["compiles"] == 0


def test_strides_of_a_vector_without_elements():
    strides = []
    for device in ("cpu", "tpu"):
        x = torch.zeros(0, 3, device=device).diagonal()
        strides.append((x.stride(), x.clone().stride(), torch.empty_like(x).stride()))
    assert strides[0] == strides[1]
