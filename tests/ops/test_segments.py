"""segment_reduce, histograms, and rows of different lengths."""

import pytest
import torch
from compare import check

NAN, INF = float("nan"), float("inf")
REDUCTIONS = ["sum", "mean", "max", "min", "prod"]
DATA = torch.tensor([[1.0, 2.0], [3.0, NAN], [0.0, 4.0], [5.0, 0.0], [0.0, 7.0], [2.0, 3.0]])
LENGTHS = torch.tensor([2, 0, 3, 1])


def gradient(reduce, initial, axis=0):
    def function(data, lengths):
        data = data.detach().requires_grad_()
        result = torch.segment_reduce(
            data, reduce, lengths=lengths, axis=axis, initial=initial, unsafe=True
        )
        weight = torch.arange(1.0, result.numel() + 1, device=data.device).view_as(result)
        return torch.autograd.grad((result * weight).sum(), data)

    return function


@pytest.mark.parametrize("initial", [None, 2.0])
@pytest.mark.parametrize("reduce", REDUCTIONS)
class TestSegmentReduce:
    def test_lengths(self, reduce, initial):
        def function(data, lengths):
            return torch.segment_reduce(data, reduce, lengths=lengths, initial=initial)

        check(function, DATA, LENGTHS)
        check(function, DATA.t().contiguous().t(), LENGTHS.int())

    @pytest.mark.parametrize("offsets", [[0, 2, 2, 5, 6], [1, 2, 5]], ids=str)
    def test_offsets_may_leave_out_ends(self, reduce, initial, offsets):
        def function(data, offsets):
            return torch.segment_reduce(data, reduce, offsets=offsets, initial=initial)

        check(function, DATA, torch.tensor(offsets))

    def test_gradient(self, reduce, initial):
        zeros = torch.tensor(
            [[0.0, 1.0], [0.0, 1.0], [1.0, 0.0], [2.0, 2.0], [3.0, 2.0], [1.0, 0.0]]
        )
        for data in (DATA, zeros):
            check(gradient(reduce, initial), data, LENGTHS)

    def test_batch(self, reduce, initial):
        torch.manual_seed(0)
        lengths = torch.tensor([[2, 3, 0], [1, 1, 3]])
        check(gradient(reduce, initial, axis=1), torch.randn(2, 5, 3), lengths)


@pytest.mark.parametrize(
    ("data", "reduce", "more"),
    [
        (torch.ones(4), "sum", {"lengths": torch.tensor([1, 2])}),
        (torch.ones(3), "sum", {"lengths": torch.tensor([4, -1])}),
        (torch.ones(3), "median", {"lengths": torch.tensor([3])}),
        (torch.ones(3), "sum", {}),
        (torch.arange(3), "sum", {"lengths": torch.tensor([3])}),
        (torch.ones(3, 2), "sum", {"lengths": torch.tensor([3]), "axis": 1}),
        (torch.ones(3), "sum", {"lengths": torch.tensor([3]), "indices": torch.tensor([3])}),
    ],
    ids=str,
)
def test_segment_reduce_errors(data, reduce, more):
    check(lambda d, m: torch.segment_reduce(d, reduce, **m), data, more)


def test_segment_reduce_of_nothing():
    check(
        lambda d, n: torch.segment_reduce(d, "max", lengths=n),
        torch.empty(0, 2),
        torch.tensor([0, 0]),
    )


# ---- histograms


@pytest.mark.parametrize("density", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
class TestHistogram:
    def values(self, weighted, *shape):
        torch.manual_seed(0)
        return torch.randn(shape), torch.rand(shape[:-1] or shape) if weighted else None

    def test_number_of_bins(self, weighted, density):
        x, w = self.values(weighted, 50)
        check(lambda x, w: torch.histogram(x, 7, weight=w, density=density), x, w)
        check(
            lambda x, w: torch.histogram(x, 7, range=(-1.0, 1.0), weight=w, density=density), x, w
        )

    def test_edges(self, weighted, density):
        x, w = self.values(weighted, 50)
        edges = torch.tensor([-1.0, 0.0, 0.5, 2.0])
        check(lambda x, e, w: torch.histogram(x, e, weight=w, density=density), x, edges, w)

    def test_dimensions(self, weighted, density):
        x, w = self.values(weighted, 5, 10, 2)
        edges = [torch.tensor([-1.0, 0.0, 2.0]), torch.tensor([-2.0, 0.0, 1.0, 1.5])]
        check(lambda x, w: torch.histogramdd(x, [3, 4], weight=w, density=density), x, w)
        check(lambda x, e, w: torch.histogramdd(x, e, weight=w, density=density), x, edges, w)


def test_histogram_edges_are_inside_and_nan_is_not():
    x = torch.tensor([NAN, 0.5, 0.2, 1.0, 0.0, 2.0, -1.0])
    check(lambda x: torch.histogram(x, 3, range=(0.0, 1.0)), x)


@pytest.mark.parametrize("x", [torch.tensor([]), torch.ones(3), torch.ones(3).double()], ids=str)
def test_histogram_of_no_range(x):
    check(lambda x: torch.histogram(x, 3), x)


def test_histogram_out():
    check(
        lambda x, h, e: torch.histogram(x, 3, out=(h, e)),
        torch.rand(9),
        torch.ones(3),
        torch.ones(4),
    )
    check(
        lambda x, h, e: torch.histogram(x, 3, out=(h, e)),
        torch.rand(9),
        torch.ones(3).double(),
        torch.ones(4),
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.histogramdd(x.view(25, 2), [3]),
        lambda x: torch.histogramdd(x, [3]),
        lambda x: torch.histogramdd(x.view(25, 2), [3, 0]),
        lambda x: torch.histogramdd(x.view(25, 2), [3, 2], range=[0.0, 1.0]),
        lambda x: torch.histogram(x / 0, 3),
        lambda x: torch.histogram(x, 3, range=(2.0, 1.0)),
        lambda x: torch.histogram(x, 3, weight=x[:3]),
        lambda x: torch.histogram(x, 3, weight=x.double()),
        lambda x: torch.histogram(x, x.view(25, 2)),
        lambda x: torch.histogram(x, x.double()),
        lambda x: torch.histogram(x, x[:0]),
        lambda x: torch.histogram(x, x[:1]),
        lambda x: torch.histogram(x.long(), 3),
        lambda x: torch.histogram(x.half(), 3),
        lambda x: torch._histogramdd_from_bin_tensors(x.view(25, 2), [x[:2]]),
    ],
)
def test_histogram_errors(function):
    check(function, torch.linspace(-1, 1, 50))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_histogram_of_narrow_floats(dtype):
    x = torch.linspace(-1, 1, 50, dtype=dtype)
    check(lambda x: torch.histogram(x, 4, range=(-1.0, 1.0)), x)
    check(lambda x: torch.histogram(x, x[:3]), x)


# ---- rows of different lengths

OFFSETS = torch.tensor([0, 2, 2, 5, 6])


@pytest.mark.parametrize("most", [2, 3, 4])
def test_jagged_to_padded(most):
    def function(values, offsets):
        return torch.ops.aten._jagged_to_padded_dense_forward(values, [offsets], [most], -1.0)

    check(function, torch.randn(6, 4), OFFSETS)
    check(function, torch.randn(6, 4, 2), OFFSETS)


@pytest.mark.parametrize("total", [6, None])
@pytest.mark.parametrize("most", [2, 3, 4])
def test_padded_to_jagged(most, total):
    """A sample that is longer than the padded batch is an error."""

    def function(dense, offsets):
        return torch.ops.aten._padded_dense_to_jagged_forward(dense, [offsets], total)

    check(function, torch.randn(4, most, 2), OFFSETS)


@pytest.mark.parametrize("int32", [False, True])
def test_indices_of_compressed_matrices(int32):
    check(
        lambda r: torch._convert_indices_from_coo_to_csr(r, 6, out_int32=int32),
        torch.tensor([0, 0, 1, 3, 3, 5]),
    )
    check(
        lambda r: torch._convert_indices_from_coo_to_csr(r, 6, out_int32=int32),
        torch.tensor([], dtype=torch.int64),
    )
    for transpose in (False, True):

        def to_coo(rows, columns, transpose=transpose):
            return torch._convert_indices_from_csr_to_coo(
                rows, columns, out_int32=int32, transpose=transpose
            )

        check(to_coo, torch.tensor([0, 2, 2, 3]), torch.tensor([0, 2, 1]))
        rows = torch.tensor([[0, 2, 2, 3], [0, 1, 1, 3]])
        check(to_coo, rows, torch.tensor([[0, 2, 1], [1, 0, 2]]))
