"""Copies: host to device, back, and on the device; every dtype, any strides, blocking or not."""

import gc

import pytest
import torch

F8 = [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
DTYPES = [
    torch.bool, torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int8, torch.int16,
    torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex64, torch.complex128, *F8,
]  # fmt: skip


def sample(dtype, *shape):
    count = torch.Size(shape).numel()
    x = (torch.arange(count) % 13).float().reshape(shape)
    return torch.complex(x, x.flip(0)).to(dtype) if dtype.is_complex else x.to(dtype)


def bits(x):
    """Its bytes."""
    return x.cpu().contiguous().view(torch.uint8)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("non_blocking", [False, True])
def test_round_trip(dtype, non_blocking):
    x = sample(dtype, 4, 6)
    y = x.to("tpu", non_blocking=non_blocking)
    assert (y.dtype, y.shape, y.stride()) == (x.dtype, x.shape, x.stride())
    assert torch.equal(bits(y), bits(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_bit_survives(dtype):
    """NaN payloads, denormals and signs: a copy is no computation."""
    raw = torch.randint(0, 256, (64, 16), dtype=torch.uint8)
    x = raw.view(dtype) if dtype != torch.bool else raw > 127
    assert torch.equal(bits(x.to("tpu")), bits(x))
    assert torch.equal(bits(x.to("tpu").clone()), bits(x))


LAYOUTS = {
    "transposed": lambda x: x.t(),
    "step": lambda x: x[::2, 1::3],
    "row": lambda x: x[2],
    "column": lambda x: x[:, 1],
    "expanded": lambda x: x[:, :1].expand(-1, 5),
    "offset": lambda x: x[1:],
    "diagonal": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((2, 3), (7, 2), 1),
    "overlapping": lambda x: x.as_strided((3, 3), (1, 1)),
    "empty": lambda x: x[:0],
    "0-d": lambda x: x[1, 2],
    "unfold": lambda x: x.unfold(1, 3, 2),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64, torch.int8], ids=str)
def test_strided(layout, dtype):
    """To the device and back with .to(): values, and the strides that the CPU gives."""
    view = LAYOUTS[layout]
    x = sample(dtype, 4, 6)
    there = view(x).to("tpu")
    want = view(x).clone()  # preserve_format, as .to() does
    assert there.stride() == want.stride()
    assert torch.equal(there.cpu(), want)
    back = view(x.to("tpu")).cpu()
    assert torch.equal(back, want)
    assert back.stride() == want.stride()


@pytest.mark.parametrize("layout", [k for k in LAYOUTS if k not in ("overlapping", "expanded")])
def test_copy_into_view(layout):
    """copy_ from the host and from the device into a strided view leaves the rest alone."""
    view = LAYOUTS[layout]
    for source in ("cpu", "tpu"):
        x = sample(torch.float32, 4, 6)
        y = x.to("tpu")
        values = torch.randn(view(x).shape)
        view(x).copy_(values)
        view(y).copy_(values.to(source))
        assert torch.equal(y.cpu(), x)


@pytest.mark.parametrize("layout", [k for k in LAYOUTS if k not in ("overlapping", "expanded")])
def test_copy_out_of_device_into_host_view(layout):
    view = LAYOUTS[layout]
    x = sample(torch.float32, 4, 6)
    values = torch.randn(view(x).shape)
    want = x.clone()
    view(want).copy_(values)
    view(x).copy_(values.to("tpu"))
    assert torch.equal(x, want)


@pytest.mark.parametrize("to", [d for d in DTYPES if d not in F8], ids=str)
def test_casting_copies(to):
    """copy_ converts; so does .to(device, dtype)."""
    for dtype in (torch.float32, torch.int64, torch.bool):
        x = sample(dtype, 3, 4)
        want = x.to(to)
        assert torch.equal(bits(x.to("tpu", to)), bits(want))
        assert torch.equal(bits(x.to("tpu").to(to)), bits(want))
        assert torch.equal(bits(torch.empty(3, 4, dtype=to).copy_(x.to("tpu"))), bits(want))
        assert torch.equal(bits(torch.empty(3, 4, dtype=to, device="tpu").copy_(x)), bits(want))


@pytest.mark.parametrize("to", F8, ids=str)
def test_casts_to_f8(to):
    x = torch.linspace(-20, 20, 101)
    assert torch.equal(bits(x.to("tpu").to(to)), bits(x.to(to)))
    assert torch.equal(x.to(to).to("tpu").float().cpu(), x.to(to).float())


def test_float_to_int_truncates():
    x = torch.tensor([-1.7, -0.2, 0.9, 2.5, 300.0])
    for dtype in (torch.int8, torch.int32, torch.int64):
        want = x[:4].to(dtype)
        assert torch.equal(x[:4].to("tpu").to(dtype).cpu(), want)
    assert x.to("tpu").to(torch.bool).tolist() == [True] * 5


def test_broadcasting_copy():
    x = torch.zeros(3, 4, device="tpu")
    x.copy_(torch.arange(4.0))
    assert x.tolist() == [[0, 1, 2, 3]] * 3
    x.copy_(torch.arange(3.0, device="tpu")[:, None])
    assert x.tolist() == [[i] * 4 for i in range(3)]
    with pytest.raises(RuntimeError, match="must match the size|expand"):
        x.copy_(torch.zeros(5))


def test_source_freed_or_overwritten_at_once():
    """A non-blocking copy from pageable memory is safe against what happens to the source."""
    copies = []
    for i in range(20):
        x = torch.full((64, 1024), float(i))
        copies.append(x.to("tpu", non_blocking=True))
        x.fill_(-1)
        del x
    gc.collect()
    junk = [torch.full((64, 1024), -2.0) for _ in range(20)]
    for i, y in enumerate(copies):
        assert (y == i).all().item()
    del junk


def test_numpy_source_freed_at_once():
    import numpy as np

    y = torch.from_numpy(np.full(100_000, 3.0, dtype=np.float32)).to("tpu", non_blocking=True)
    np.full(100_000, 4.0, dtype=np.float32)
    assert (y == 3).all().item()


def test_host_result_is_its_own():
    """What .cpu() gave does not change with the device's tensor, nor the other way round."""
    x = torch.arange(6.0, device="tpu")
    host = x.cpu()
    x.add_(1)
    assert host.tolist() == [0, 1, 2, 3, 4, 5]
    host.zero_()
    assert x.tolist() == [1, 2, 3, 4, 5, 6]


def test_non_blocking_read_is_there_after_synchronize():
    x = torch.arange(1000.0, device="tpu")
    y = (x * 2).to("cpu", non_blocking=True)
    torch.tpu.synchronize()
    assert torch.equal(y, torch.arange(1000.0) * 2)


def test_channels_last():
    x = torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    y = x.to("tpu")
    assert y.stride() == x.stride()
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(y.cpu(), x)
    assert y.cpu().stride() == x.stride()
    z = torch.randn(2, 3, 4, 5, device="tpu").to(memory_format=torch.channels_last)
    assert z.stride() == x.stride()


def test_to_returns_itself_when_nothing_changes():
    x = torch.ones(2, device="tpu")
    assert x.to("tpu") is x
    assert x.to("tpu:0") is x
    assert x.tpu() is x
    assert x.to("tpu", copy=True) is not x
    assert x.contiguous() is x


def test_conjugate_and_negative_views():
    x = torch.randn(3, 4, dtype=torch.complex64)
    assert torch.equal(x.conj().to("tpu").cpu(), x.conj())
    assert torch.equal(x.to("tpu").conj().cpu().resolve_conj(), x.conj().resolve_conj())
    assert torch.equal(x.to("tpu").conj().imag.cpu().resolve_neg(), x.conj().imag.resolve_neg())
    y = torch.zeros(3, 4, dtype=torch.complex64, device="tpu")
    y.conj().copy_(x)
    assert torch.equal(y.cpu(), x.conj().resolve_conj())


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (2, 0, 3)])
def test_without_elements_and_without_dimensions(shape):
    x = torch.ones(shape)
    y = x.to("tpu")
    assert y.shape == x.shape
    assert torch.equal(y.cpu(), x)
    assert torch.equal((y + 1).cpu(), x + 1)
    assert y.tolist() == x.tolist()


def test_autograd_of_a_copy():
    x = torch.ones(3, requires_grad=True)
    (x.to("tpu") * torch.arange(3.0, device="tpu")).sum().cpu().backward()
    assert x.grad.device.type == "cpu"
    assert x.grad.tolist() == [0, 1, 2]


def test_item_and_bool():
    assert torch.tensor(2.5, device="tpu").item() == 2.5
    assert torch.tensor([True], device="tpu").item() is True
    assert torch.tensor(1 + 2j, device="tpu").item() == 1 + 2j
    assert bool(torch.tensor(0, device="tpu")) is False
    assert int(torch.tensor(2**62 + 1, device="tpu")) == 2**62 + 1
    assert [10, 20][torch.tensor(1, device="tpu")] == 20
    with pytest.raises(RuntimeError, match="cannot be converted to Scalar"):
        torch.ones(2, device="tpu").item()
