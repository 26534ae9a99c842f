"""Decompositions beyond OpInfo's small samples: larger and special matrices, failures, drivers."""

import pytest
import torch

DTYPES = [torch.float32, torch.complex128]


@pytest.fixture(autouse=True)
def no_fallbacks():
    torch.manual_seed(0)
    torch.tpu.reset_counters()
    yield
    assert torch.tpu.fallback_ops() == {}


def digits(dtype):
    """An error of some units in the last place."""
    return 50 * torch.finfo(dtype).eps


def close(got, want, error):
    torch.testing.assert_close(got.cpu(), want.cpu(), rtol=0, atol=error)


def is_orthonormal(q, error):
    close(q.mH @ q, torch.eye(q.shape[-1], dtype=q.dtype).expand(*q.shape[:-2], -1, -1), error)


def outcome(function, *arguments, **keywords):
    """The results, or the type and the text of the error."""
    try:
        return function(*arguments, **keywords)
    except Exception as error:
        return type(error), str(error)


# ------------------------------------------------------------------------------------------ qr


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(70, 40), (2, 40, 65), (33, 1)])
def test_qr_has_lapacks_signs(shape, dtype):
    a = torch.randn(shape, dtype=dtype)
    for mode in ("reduced", "complete", "r"):
        got, want = torch.linalg.qr(a.to("tpu"), mode), torch.linalg.qr(a, mode)
        for g, w in zip(got, want, strict=True):
            close(g, w, 100 * digits(dtype))


def test_qr_of_tiny_and_huge_numbers():
    a = torch.randn(6, 4)
    for scale in (1e-30, 1e30):
        q, r = torch.linalg.qr((a * scale).to("tpu"))
        close(q, torch.linalg.qr(a)[0], 1e-5)
        close(r / scale, torch.linalg.qr(a)[1], 1e-5)


def test_qr_of_nothing_to_reflect():
    a = torch.eye(4) * torch.tensor([1.0, -2.0, 0.0, 3.0])
    for x in (a, torch.zeros(3, 3), torch.full((2, 2), float("nan"))):
        for got, want in zip(torch.linalg.qr(x.to("tpu")), torch.linalg.qr(x), strict=True):
            torch.testing.assert_close(got.cpu(), want, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
def test_reflections_are_applied_from_both_sides(dtype):
    a, tau = torch.geqrf(torch.randn(50, 40, dtype=dtype))
    q = torch.linalg.householder_product(a, tau)
    close(torch.linalg.householder_product(a.to("tpu"), tau.to("tpu")), q, digits(dtype))
    for left in (True, False):
        c = torch.randn((50, 7) if left else (7, 50), dtype=dtype)
        for transpose in (True, False):
            want = torch.ormqr(a, tau, c, left, transpose)
            got = torch.ormqr(a.to("tpu"), tau.to("tpu"), c.to("tpu"), left, transpose)
            close(got, want, digits(dtype))


# ---------------------------------------------------------------------------------------- eigh


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 65])
def test_eigh(n, dtype):
    a = torch.randn(2, n, n, dtype=dtype)
    a = a + a.mH
    size = torch.linalg.eigvalsh(a).abs().max()
    for uplo, half in (("L", a.tril()), ("U", a.triu())):
        values, vectors = (x.cpu() for x in torch.linalg.eigh(half.to("tpu"), uplo))
        error = digits(dtype)
        close(values / size, torch.linalg.eigvalsh(a) / size, error)
        close(a @ vectors / size, vectors * values.unsqueeze(-2) / size, error)
        is_orthonormal(vectors, error)


def test_eigh_of_special_matrices():
    identity, zeros = torch.eye(5), torch.zeros(4, 4)
    pairs = torch.block_diag(*[torch.tensor([[0.0, 2.0], [2.0, 0.0]])] * 3)  # 2 and -2, thrice
    for a in (identity, zeros, identity * 1e30, identity * 1e-30, torch.ones(7, 7), pairs):
        values, vectors = (x.cpu() for x in torch.linalg.eigh(a.to("tpu")))
        torch.testing.assert_close(values, torch.linalg.eigvalsh(a), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close((vectors * values) @ vectors.mT, a, atol=1e-5, rtol=1e-5)
        is_orthonormal(vectors, 1e-5)
    diagonal = torch.diag(torch.tensor([3.0, -1.0, 2.5, 0.1]))
    assert torch.linalg.eigvalsh(diagonal.to("tpu")).tolist() == pytest.approx([-1, 0.1, 2.5, 3])


# ----------------------------------------------------------------------------------------- svd


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 33, 33), (25, 40), (5, 1)])
def test_svd(shape, dtype):
    a = torch.randn(shape, dtype=dtype)
    s_want = torch.linalg.svdvals(a)
    error = digits(dtype) * max(1.0, s_want.max().item())
    close(torch.linalg.svdvals(a.to("tpu")), s_want, error)
    for full in (True, False):
        u, s, vh = (x.cpu() for x in torch.linalg.svd(a.to("tpu"), full))
        k = s.shape[-1]
        close(s, s_want, error)
        close((u[..., :k] * s.unsqueeze(-2)) @ vh[..., :k, :], a, error)
        is_orthonormal(u, digits(dtype))
        is_orthonormal(vh.mH, digits(dtype))


def test_svd_of_rank_deficient_matrices():
    low = torch.randn(9, 3) @ torch.randn(3, 7)
    for a in (
        torch.zeros(4, 4),
        torch.ones(5, 3),
        torch.eye(3),
        low,
        torch.zeros(3, 5),
        low * 1e25,
    ):
        u, s, vh = (x.cpu() for x in torch.linalg.svd(a.to("tpu"), full_matrices=True))
        k, size = s.shape[-1], max(1.0, a.abs().max().item())
        close((u[:, :k] * s) @ vh[:k], a, 1e-5 * size)
        close(s, torch.linalg.svdvals(a), 1e-5 * size)
        is_orthonormal(u, 1e-5)
        is_orthonormal(vh.mH, 1e-5)
    assert torch.linalg.matrix_rank(low.to("tpu")).item() == 3


def test_svd_keeps_small_singular_values():
    """One-sided rotations know even those that are lost in the rounding of the greatest."""
    u, v = (torch.linalg.qr(torch.randn(6, 6).double())[0] for _ in range(2))
    scales = torch.tensor([1.0, 1e-2, 1e-5, 1e-8, 1e-11, 1e-14]).double()
    a = u * scales  # columns of very different sizes
    torch.testing.assert_close(torch.linalg.svdvals(a.to("tpu")).cpu(), scales, rtol=1e-10, atol=0)
    close(torch.linalg.svdvals((a @ v).to("tpu")), scales, 1e-14)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 0, 3), (0, 3, 3)])
def test_empty_matrices(shape):
    a = torch.zeros(shape)
    for function in (torch.linalg.qr, torch.linalg.svd, torch.linalg.svdvals, torch.linalg.pinv):
        got, want = outcome(function, a.to("tpu")), outcome(function, a)
        for g, w in zip(got, want, strict=True):
            if isinstance(w, torch.Tensor):
                close(g, w, 0)
            else:
                assert g == w
    if shape[-1] == shape[-2]:
        for g, w in zip(torch.linalg.eigh(a.to("tpu")), torch.linalg.eigh(a), strict=True):
            close(g, w, 0)
        close(torch.linalg.matrix_exp(a.to("tpu")), a, 0)


# ----------------------------------------------------------------------------------------- eig


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_eig(dtype):
    a = torch.randn(60, 7, 7, dtype=dtype)
    values, vectors = (x.cpu() for x in torch.linalg.eig(a.to("tpu")))
    close(a.to(vectors.dtype) @ vectors, vectors * values.unsqueeze(-2), 5 * digits(dtype))
    close(vectors.norm(dim=-2).double(), torch.ones(60, 7).double(), digits(dtype))
    want = torch.linalg.eigvals(a)
    distance = (values.unsqueeze(-1) - want.unsqueeze(-2)).abs()
    for dim in (-1, -2):  # each has one of the other side
        assert distance.amin(dim).max() < 200 * digits(dtype)
    if not a.is_complex():
        assert (values.imag == 0).sum() == (want.imag == 0).sum()


def test_eig_of_special_matrices():
    special = {
        "defective": torch.tensor([[1.0, 1, 0], [0, 1, 1], [0, 0, 1]]),
        "rotation": torch.tensor([[0.0, 1], [-1, 0]]),
        "zeros": torch.zeros(3, 3),
        "shift": torch.roll(torch.eye(6), 1, 0),
        "nilpotent": torch.diag(torch.ones(30), 1),
        "huge": torch.tensor([[1.0, 2], [3, 4]]) * 1e30,
        "one": torch.ones(1, 1),
    }
    for name, a in special.items():
        values, vectors = (x.cpu() for x in torch.linalg.eig(a.to("tpu")))
        size = max(1.0, a.abs().max().item())
        rest = (a.to(vectors.dtype) / size) @ vectors - vectors * (values / size)
        assert rest.abs().max() < 1e-5, name
        close(vectors.norm(dim=-2), torch.ones(len(a)), 1e-5)


def test_eig_errors():
    cases = [torch.ones(3), torch.ones(3, 2), torch.ones(2, 2, dtype=torch.int32)]
    cases.append(torch.full((2, 2), float("nan")))
    for a in cases:
        want = outcome(torch.linalg.eig, a)
        assert isinstance(want[1], str)
        assert outcome(torch.linalg.eig, a.to("tpu")) == want


# ----------------------------------------------------------------------------------------- ldl


@pytest.mark.parametrize("hermitian", [False, True])
@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
def test_ldl(dtype, hermitian):
    for n in (1, 2, 3, 17):
        a = torch.randn(9, n, n, dtype=dtype)
        a = a + (a.mH if hermitian else a.mT)
        a.diagonal(dim1=-2, dim2=-1)[: n // 2].zero_()  # so that there are blocks of 2 x 2
        got = torch.linalg.ldl_factor_ex(a.to("tpu"), hermitian=hermitian)
        want = torch.linalg.ldl_factor_ex(a, hermitian=hermitian)
        assert torch.equal(got.pivots.cpu(), want.pivots)
        assert torch.equal(got.info.cpu(), want.info)
        close(got.LD / want.LD.abs().max(), want.LD / want.LD.abs().max(), 100 * digits(dtype))
        assert got.LD.stride() == want.LD.stride() or n == 1
        b = torch.randn(9, n, 2, dtype=dtype)
        x = torch.linalg.ldl_solve(want.LD, want.pivots, b, hermitian=hermitian)
        factors = (want.LD.to("tpu"), want.pivots.to("tpu"))
        y = torch.linalg.ldl_solve(*factors, b.to("tpu"), hermitian=hermitian).cpu()
        close(y / x.abs().max(), x / x.abs().max(), 100 * digits(dtype))


def test_ldl_of_zeros():
    got = torch.linalg.ldl_factor_ex(torch.zeros(3, 3, device="tpu"))
    assert got.info.item() == 1 and got.pivots.tolist() == [1, 2, 3]


# ------------------------------------------------------------------------------------ failures


def test_not_finite():
    bad = torch.randn(4, 4)
    bad[2, 1] = float("nan")
    batch = torch.stack([torch.eye(4), bad])
    for function in (torch.linalg.svd, torch.linalg.svdvals):
        for a in (bad, batch):
            want = outcome(function, a)
            assert want[0] is torch.linalg.LinAlgError
            assert outcome(function, a.to("tpu")) == want
    with pytest.raises(
        torch.linalg.LinAlgError, match=r"linalg.eigh: \(Batch element 1\): The alg"
    ):
        torch.linalg.eigh(batch.to("tpu"))
    # The triangle that is not read may hold anything.
    close(torch.linalg.eigvalsh(bad.to("tpu"), "U"), torch.linalg.eigvalsh(bad, "U"), 1e-5)


ERRORS = {
    "eigh of a vector": (torch.linalg.eigh, (3,)),
    "eigh of a rectangle": (torch.linalg.eigh, (3, 4)),
    "svd of a vector": (torch.linalg.svd, (3,)),
    "qr of a vector": (torch.linalg.qr, (3,)),
    "geqrf of a vector": (torch.geqrf, (3,)),
    "matrix_exp of a rectangle": (torch.linalg.matrix_exp, (3, 4)),
    "det of a rectangle": (torch.linalg.det, (3, 4)),
}


@pytest.mark.parametrize("name", ERRORS)
def test_wrong_shapes(name):
    function, shape = ERRORS[name]
    want = outcome(function, torch.ones(shape))
    assert want[0] is RuntimeError
    assert outcome(function, torch.ones(shape, device="tpu")) == want


# --------------------------------------------------------------------------------------- lstsq

SHAPES = {
    "tall": ((5, 3), (5, 2)),
    "wide": ((3, 5), (3, 2)),
    "batch": ((2, 5, 3), (2, 5, 2)),
    "vector": ((5, 3), (5,)),
    "vectors": ((2, 5, 3), (2, 5)),
    "broadcast": ((1, 5, 3), (2, 5, 2)),
    "no batch": ((0, 3, 5), (0, 3, 2)),
    "no rows": ((0, 5), (0, 2)),
    "other size": ((5, 3), (4, 2)),
    "other length": ((5, 3), (4,)),
    "too few dims": ((5, 3), (2, 5, 2)),
    "no matrix": ((5,), (5,)),
}


def compare_lstsq(a, b, **keywords):
    got = outcome(torch.linalg.lstsq, a.to("tpu"), b.to("tpu"), **keywords)
    want = outcome(torch.linalg.lstsq, a, b, **keywords)
    for g, w in zip(got, want, strict=True):
        if not isinstance(w, torch.Tensor):
            assert g == w
            continue
        assert g.dtype == w.dtype and g.shape == w.shape
        if w.numel() > 0:
            assert g.stride() == w.stride()
        torch.testing.assert_close(g.cpu(), w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
@pytest.mark.parametrize("name", SHAPES)
def test_lstsq(name, driver):
    a, b = (torch.randn(shape) for shape in SHAPES[name])
    compare_lstsq(a, b, driver=driver)


@pytest.mark.parametrize("driver", ["gelsy", "gelsd", "gelss"])
def test_lstsq_of_low_rank(driver):
    a = torch.randn(6, 2) @ torch.randn(2, 4)
    compare_lstsq(
        torch.stack([a, torch.zeros(6, 4)]), torch.randn(2, 6, 3), driver=driver, rcond=1e-5
    )


def test_lstsq_errors():
    a = torch.randn(5, 3)
    a[:, 1] = 0
    compare_lstsq(a, torch.randn(5, 2), driver="gels")
    compare_lstsq(torch.stack([torch.randn(5, 3), a]), torch.randn(2, 5, 2), driver="gels")
    compare_lstsq(torch.zeros(5, 3), torch.randn(5, 2), driver="gels")
    compare_lstsq(a, torch.randn(5, 2), driver="other")
    compare_lstsq(a, torch.randn(5, 2).double())


# ------------------------------------------------------------------------------------- the rest


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("norm", [1e-3, 1.0, 10.0])
def test_matrix_exp(norm, dtype):
    a = torch.randn(3, 20, 20, dtype=dtype)
    a *= norm / a.abs().sum(-2).max() * torch.tensor([1.0, 0.1, 0.0]).view(3, 1, 1)
    want = torch.linalg.matrix_exp(a.to(torch.promote_types(dtype, torch.float64)))
    got = torch.linalg.matrix_exp(a.to("tpu")).cpu().to(want.dtype)
    close(got / want.abs().max(), want / want.abs().max(), digits(dtype))


OUT_FORMS = {
    "det": (torch.linalg.det, 1),
    "slogdet": (torch.linalg.slogdet, 2),
    "solve": (lambda a, out: torch.linalg.solve(a, a, out=out), 1),
    "eigvalsh": (torch.linalg.eigvalsh, 1),
    "svdvals": (torch.linalg.svdvals, 1),
}


@pytest.mark.parametrize("name", OUT_FORMS)
def test_out_forms(name):
    function, count = OUT_FORMS[name]
    a = torch.randn(4, 4)

    def call(x, dtype):
        outs = tuple(torch.empty(0, dtype=dtype, device=x.device) for _ in range(count))
        function(x, out=outs if count > 1 else outs[0])
        return [out.cpu() for out in outs]

    for g, w in zip(call(a.to("tpu"), a.dtype), call(a, a.dtype), strict=True):
        close(g, w, 1e-5)
    want = outcome(call, a, torch.int32)
    assert want[0] is RuntimeError
    assert outcome(call, a.to("tpu"), torch.int32) == want


def test_programs_do_not_grow_with_the_matrix():
    """Sizes are in the key, but the text of a program has loops: compiling takes no longer."""
    a = torch.randn(300, 200).to("tpu")
    start = torch.tpu.counters()["compiles"]
    for function in (torch.linalg.qr, torch.linalg.svd, torch.linalg.svdvals):
        function(a)
        function(a * 2)
    assert torch.tpu.counters()["compiles"] - start <= 4
