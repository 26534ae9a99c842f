"""Fourier transforms beyond OpInfo's samples: strides, more than three dimensions, sizes, out=."""

import itertools
import math

import pytest
import torch
from compare import check

SHAPE = (3, 4, 5, 6)
AXES = [[3], [0], [1, 2], [3, 0], [2, 3, 0], [0, 1, 2, 3], [3, 1, 0, 2]]


def layouts(x):
    yield x
    yield x.transpose(0, -1).contiguous().transpose(0, -1)
    yield torch.cat([x, x], 1)[:, ::2]


@pytest.mark.parametrize("axes", AXES, ids=str)
def test_values_and_strides(axes):
    torch.manual_seed(0)
    for x, mode in itertools.product(layouts(torch.randn(SHAPE, dtype=torch.float64)), (0, 2)):
        z = torch.complex(x, torch.flip(x, [0]))
        check(lambda t, m=mode: torch._fft_r2c(t, axes, m, True), x)
        check(lambda t, m=mode: torch._fft_r2c(t, axes, m, False), x)
        check(lambda t, m=mode: torch._fft_c2c(t, axes, m, True), z)
        check(lambda t, m=mode: torch._fft_c2c(t, axes, m, False), z)
        for size in (2 * SHAPE[axes[-1]] - 2, 2 * SHAPE[axes[-1]] - 1):
            check(lambda t, m=mode, s=size: torch._fft_c2r(t, axes, m, s), z)


@pytest.mark.parametrize("norm", ["forward", "backward", "ortho"])
@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"])
def test_normalization(name, norm):
    x = torch.randn(3, 10)
    if name in ("ifft", "irfft", "hfft"):
        x = torch.fft.fft(x)
    check(lambda t: getattr(torch.fft, name)(t, norm=norm), x)
    check(lambda t: getattr(torch.fft, name)(t, n=7, dim=0, norm=norm), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.complex128])
@pytest.mark.parametrize("size", [1, 2, 97, 1009, 10007, 65536])
def test_error_is_that_of_the_dtype(size, dtype):
    """Prime and large sizes: the error of the root mean square is a few units in the last place."""
    torch.manual_seed(0)
    x = torch.randn(size, dtype=dtype)
    want = torch.fft.fft(x.to(torch.complex128))
    got = torch.fft.fft(x.to("tpu")).cpu().to(torch.complex128)
    error = (got - want).abs().square().mean().sqrt() / want.abs().square().mean().sqrt()
    assert error < 4 * torch.finfo(dtype).eps * max(1.0, math.log2(size) / 4)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64, torch.bool])
def test_integers_are_promoted(dtype):
    check(torch.fft.fft, torch.tensor([1, 0, 3, 4, 1]).to(dtype))
    check(torch.fft.rfft, torch.tensor([1, 0, 3, 4, 1]).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_narrow_floats_are_refused_as_on_the_cpu(dtype):
    x = torch.ones(4, dtype=dtype)
    with pytest.raises(RuntimeError) as want:
        torch.fft.fft(x)
    with pytest.raises(RuntimeError) as got:
        torch.fft.fft(x.to("tpu"))
    assert str(got.value).splitlines()[0] == str(want.value).splitlines()[0]


@pytest.mark.parametrize("name", ["fft", "rfft", "irfft"])
def test_empty_batch(name):
    """MKL refuses these on the CPU."""
    x = torch.randn(0, 6, dtype=torch.complex64 if name == "irfft" else torch.float32)
    got, meta = (getattr(torch.fft, name)(x.to(device)) for device in ("tpu", "meta"))
    assert (got.shape, got.dtype) == (meta.shape, meta.dtype)


def test_no_points_raise():
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="Invalid number of data points"):
            torch.fft.fft(torch.randn(3, 0, device=device))


def test_conjugate_view():
    z = torch.randn(4, 5, dtype=torch.complex64)
    check(lambda t: torch.fft.fft(t.conj()), z)
    check(lambda t: torch.fft.fft(t.conj().imag), z)


def test_out_is_resized_and_keeps_its_strides():
    x = torch.randn(4, 6)
    for device in ("cpu", "tpu"):
        out = torch.empty(6, 4, dtype=torch.complex64, device=device).t()
        pointer = out.data_ptr()
        assert torch.fft.fft(x.to(device), out=out) is out
        assert out.data_ptr() == pointer and out.stride() == (1, 4)
        torch.testing.assert_close(out.cpu(), torch.fft.fft(x))
    grown = torch.empty(0, dtype=torch.complex64, device="tpu")
    torch.fft.rfft(x.to("tpu"), out=grown)
    torch.testing.assert_close(grown.cpu(), torch.fft.rfft(x))


def test_out_of_another_dtype_raises():
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="out"):
            torch.fft.fft(torch.randn(4, device=device), out=torch.empty(4, device=device))


@pytest.mark.parametrize("name", ["fftn", "rfftn", "irfftn"])
def test_gradient_of_four_dimensions(name):
    x = torch.randn(2, 3, 4, 5, dtype=torch.complex128 if name == "irfftn" else torch.float64)
    weight = getattr(torch.fft, name)(torch.flip(x, [0]))
    grads = []
    for device in ("cpu", "tpu"):
        leaf = x.to(device, copy=True).requires_grad_()
        (getattr(torch.fft, name)(leaf) * weight.to(device)).sum().abs().backward()
        grads.append(leaf.grad.cpu())
    torch.testing.assert_close(grads[1], grads[0])


def test_inverse_of_a_spectrogram():
    x = torch.randn(2, 400)
    window = torch.hann_window(64)

    def there_and_back(signal):
        at = window.to(signal.device)
        spectrum = torch.stft(signal, 64, 16, window=at, return_complex=True)
        return torch.istft(spectrum, 64, 16, window=at, length=400)

    check(there_and_back, x, rtol=1e-4, atol=1e-5)
