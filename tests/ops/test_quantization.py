"""Pretended quantization, its observer, and products of scaled narrow numbers."""

import pytest
import torch
from compare import check, copied, outcome

aten = torch.ops.aten
NAN, INF = float("nan"), float("inf")
X = torch.tensor([-3.0, -0.26, 0.24, 0.25, 0.5, 1.0, 7.6, 100.0, NAN])
PLANES = torch.linspace(-9.0, 11.0, 60).view(4, 3, 5)
SCALES = torch.tensor([0.1, 0.2, 0.3, 0.7])
FLOAT_POINTS = torch.tensor([3.4, 0.2, 1.5, -2.5])
INT_POINTS = torch.tensor([3, 0, 5, -2], dtype=torch.int32)


@pytest.mark.parametrize("scale", [0.1, 0.37])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_per_tensor(dtype, scale):
    check(lambda x: aten.fake_quantize_per_tensor_affine_cachemask(x, scale, 3, 0, 50), X.to(dtype))


def test_layouts_and_errors():
    def function(x, point=3, least=0, greatest=50):
        return aten.fake_quantize_per_tensor_affine_cachemask(x, 0.1, point, least, greatest)

    images = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    for x in (images, PLANES[0].t(), X[0], torch.empty(0, 3)):
        check(function, x)
    check(function, X, 51)
    check(function, X, 3, 9, 0)


@pytest.mark.parametrize("enabled", [0, 1])
@pytest.mark.parametrize("point", [torch.tensor([3], dtype=torch.int32), torch.tensor([3.4])])
def test_parameters_as_tensors(point, enabled):
    check(
        lambda *a: aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams(*a, 0, 50),
        X,
        torch.tensor([0.1]),
        point,
        torch.tensor([enabled]),
    )


@pytest.mark.parametrize("points", [INT_POINTS, FLOAT_POINTS])
def test_per_channel(points):
    def function(x, scales, points):
        return aten.fake_quantize_per_channel_affine_cachemask(x, scales, points, 0, -20, 50)

    check(function, PLANES, SCALES, points)
    check(function, PLANES, SCALES[:3], points[:3])  # an error


@pytest.mark.parametrize("point", [3.6, 3.5, 2.5, -4.0, 100.0])
def test_learnable(point):
    scale, points = torch.tensor([0.1]), torch.tensor([point])
    check(
        lambda *a: aten._fake_quantize_learnable_per_tensor_affine(*a, 0, 50, 1.0), X, scale, points
    )
    check(
        lambda *a: aten._fake_quantize_learnable_per_tensor_affine_backward(*a, 0, 50, 0.5),
        torch.arange(1.0, 9.0),
        X[:8],
        scale,
        points,
    )


def test_learnable_per_channel():
    arguments = (PLANES, SCALES, FLOAT_POINTS)
    check(
        lambda *a: aten._fake_quantize_learnable_per_channel_affine(*a, 0, -20, 50, 0.3), *arguments
    )
    check(
        lambda *a: aten._fake_quantize_learnable_per_channel_affine_backward(*a, 0, -20, 50, 0.3),
        PLANES.flip(0),
        *arguments,
    )


def test_gradient_through_fake_quantization():
    def function(x):
        x = x.detach().requires_grad_()
        y = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 50)
        return torch.autograd.grad(y.sum(), x)

    check(function, X[:8])


def test_another_scale_compiles_nothing():
    x = X.to("tpu")
    torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 50)
    torch.tpu.reset_counters()
    torch.fake_quantize_per_tensor_affine(x, 0.2, 7, 0, 50)
    assert torch.tpu.counters()["compiles"] == 0


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("switches", [(0, 0), (0, 1), (1, 0), (1, 1)], ids=str)
class TestObserver:
    """The running range, the scale and the zero point are written too."""

    def run(self, x, low, high, scale, point, switches, axis, per_row, symmetric):
        def function(*arguments):
            return aten._fused_moving_avg_obs_fq_helper(
                *arguments, 0.01, 0, 255, axis, per_row, symmetric
            )

        observe, quantize = (torch.tensor([s]) for s in switches)
        check(function, x, observe, quantize, low, high, scale, point)

    def test_of_a_tensor(self, switches, symmetric):
        low, high = torch.tensor(-1.0), torch.tensor(2.0)
        scale, point = torch.tensor([0.5]), torch.tensor([1], dtype=torch.int32)
        self.run(X[:8], low, high, scale, point, switches, 0, False, symmetric)

    @pytest.mark.parametrize("axis", [0, 1])
    def test_of_rows(self, switches, symmetric, axis):
        low, high = torch.full((4,), -2.0), torch.full((4,), 3.0)
        if switches[0]:
            low, high = torch.full((4,), INF), torch.full((4,), -INF)
        scale, point = torch.ones(4), torch.zeros(4, dtype=torch.int32)
        x = PLANES if axis == 0 else PLANES.transpose(0, 1)
        self.run(x, low, high, scale, point, switches, axis, True, symmetric)


# ---- products

F8 = torch.float8_e4m3fn
A = torch.linspace(-2, 3, 16 * 32).view(16, 32).to(F8)
B = torch.linspace(3, -1, 24 * 32).view(24, 32).to(F8).t()
ONE = (torch.tensor(0.5), torch.tensor(0.25))
ROWS = (torch.linspace(0.1, 1, 16).view(16, 1), torch.linspace(1, 0.1, 24).view(1, 24))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("scales", [ONE, ROWS], ids=["tensor", "rows"])
def test_scaled_mm(scales, dtype):
    bias = torch.linspace(-1, 1, 24).to(torch.bfloat16)
    check(lambda a, b, s, t: torch._scaled_mm(a, b, s, t, out_dtype=dtype), A, B, *scales)
    check(
        lambda a, b, s, t, c: torch._scaled_mm(a, b, s, t, bias=c, out_dtype=torch.bfloat16),
        A,
        B,
        *scales,
        bias,
    )


FACTORS = ("mat1 and mat2", "mat_a and mat_b")


def test_scaled_mm_errors():
    # Which of two kernels the CPU runs depends on the machine; they name the factors differently.
    texts = [f"{f} shapes cannot be multiplied (16x32 and 16x32)" for f in FACTORS]
    torch.tpu.reset_counters()
    host, there = ([copied(x, device) for x in (A, A, *ONE)] for device in ("cpu", "tpu"))
    assert outcome(torch._scaled_mm, host) in [("RuntimeError", text) for text in texts]
    assert outcome(torch._scaled_mm, there) == ("RuntimeError", texts[0])
    assert not torch.tpu.fallback_ops()
    check(torch._scaled_mm, A.float(), B, *ONE)
    check(torch._scaled_mm, A.float(), B.float(), *ONE)
    check(torch._scaled_mm, A, B, torch.ones(3), ONE[1])
    check(torch._scaled_mm, A, B, ROWS[0], ONE[1])


@pytest.mark.parametrize(("recipe", "scales"), [(0, ONE), (1, ROWS)], ids=["tensor", "rows"])
def test_scaled_mm_with_recipes(recipe, scales):
    def function(a, b, s, t):
        none = [0]
        return aten._scaled_mm_v2(
            a, b, [s], [recipe], none, [t], [recipe], none, None, torch.bfloat16
        )

    check(function, A, B, *scales)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_int8_weight(dtype):
    x = torch.linspace(-1, 1, 256).view(8, 32).to(dtype)
    weight = torch.arange(-256, 256).to(torch.int8).view(16, 32)
    check(torch._weight_int8pack_mm, x, weight, torch.linspace(0.1, 1, 16).to(dtype))
