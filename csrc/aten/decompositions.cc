// Decompositions whose failure PyTorch reports at the call: the host reads LAPACK's `info` of each
// matrix. And what is composed of them.
#include <ATen/core/Tensor.h>
#include <ATen/native/LinearAlgebraUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/_linalg_eigh.h>
#include <ATen/ops/_linalg_svd.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_solve_triangular.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

using at::Tensor;
using torch::jit::Stack;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using Driver = std::optional<std::string_view>;

/// Raises if a matrix failed; there is no need to ask where there is none.
void check_info(const Tensor& info, const char* name) {
  if (info.numel() > 0) at::_linalg_check_errors(info, name, /*is_matrix=*/info.dim() == 0);
}

void write_out(const Tensor& result, Tensor& out, const char* name, const char* function) {
  at::native::checkSameDevice(function, out, result, name);
  at::native::checkLinalgCompatibleDtype(function, out, result, name);
  resize_for(result, out, /*structured=*/false);
  out.copy_(result);
}

// ---- eigh, svd

Two eigh(const Tensor& a, std::string_view uplo, bool compute_v) {
  at::native::squareCheckInputs(a, "linalg.eigh");
  at::native::checkUplo(uplo);
  const Stack results = native("torch_tpu::eigh", a, uplo, compute_v);
  check_info(results[2].toTensor(), "linalg.eigh");
  return {results[0].toTensor(), results[1].toTensor()};
}

Three svd(const Tensor& a, bool full_matrices, bool compute_uv, Driver driver) {
  TORCH_CHECK(!driver,
              "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
              "cuSOLVER backend.");
  at::native::checkFloatingOrComplex(a, "linalg.svd");
  const Stack results = native("torch_tpu::svd", a, full_matrices, compute_uv);
  check_info(results[3].toTensor(), "linalg.svd");
  return {results[0].toTensor(), results[1].toTensor(), results[2].toTensor()};
}

// ---- eig

Two run_eig(const Tensor& a, bool compute_v) {
  at::native::squareCheckInputs(a, "linalg.eig");
  if (!a.is_complex()) c10::toComplexType(a.scalar_type());  // raises for integers
  TORCH_CHECK(a.isfinite().all().item<bool>(),
              "torch.linalg.eig: input tensor should not contain infs or NaNs.");
  const Stack results = native("torch_tpu::eig", a, compute_v);
  check_info(results[2].toTensor(), "linalg.eig");
  return {results[0].toTensor(), results[1].toTensor()};
}

Two eig(const Tensor& a) { return run_eig(a, true); }
Tensor eigvals(const Tensor& a) { return std::get<0>(run_eig(a, false)); }

std::tuple<Tensor&, Tensor&> eig_out(const Tensor& a, Tensor& values, Tensor& vectors) {
  const auto [w, v] = eig(a);
  write_out(w, values, "eigenvalues", "torch.linalg.eig");
  write_out(v, vectors, "eigenvectors", "torch.linalg.eig");
  return {values, vectors};
}

Tensor& eigvals_out(const Tensor& a, Tensor& values) {
  write_out(eigvals(a), values, "eigenvalues", "torch.linalg.eigvals");
  return values;
}

// ---- Least squares

struct LeastSquares {
  Tensor solution;
  Tensor rank;             // empty for gels
  Tensor singular_values;  // empty for gels and gelsy
};

/// By QR, for matrices of full rank; raises where the triangle has a 0 on its diagonal. Only of a
/// matrix without any number but 0 the solution is 0, as LAPACK's.
Tensor solve_full_rank(const Tensor& a, const Tensor& b, const Tensor& is_zero) {
  const bool wide = a.size(-2) < a.size(-1);
  const auto [q, r] = at::linalg_qr(wide ? a.mH() : a, "reduced");
  const Tensor diagonal = r.diagonal(0, -2, -1);
  if (diagonal.size(-1) > 0) {
    // LAPACK's info: the first zero, counted from 1.
    const Tensor zero = diagonal.eq(0).logical_and(is_zero.squeeze(-1).logical_not());
    check_info(zero.to(at::kInt).argmax(-1).add(1).mul(zero.any(-1)).to(at::kInt),
               "torch.linalg.lstsq");
  }
  const Tensor triangle = r.masked_fill(is_zero, 1).triu();
  if (wide) return q.matmul(at::linalg_solve_triangular(triangle.mH(), b, /*upper=*/false));
  return at::linalg_solve_triangular(triangle, q.mH().matmul(b), /*upper=*/true);
}

/// By singular values; those that are at most rcond times the greatest count as 0.
LeastSquares solve_any_rank(const Tensor& a, const Tensor& b, double rcond) {
  const auto [u, s, vh] = at::_linalg_svd(a, /*full_matrices=*/false, /*compute_uv=*/true);
  const Tensor kept = s.size(-1) == 0 ? s.gt(0) : s.gt(s.narrow(-1, 0, 1).mul(rcond));
  const Tensor inverse = s.reciprocal().masked_fill(kept.logical_not(), 0);
  const Tensor projected = u.mH().matmul(b).mul(inverse.unsqueeze(-1));
  return {vh.mH().matmul(projected), kept.sum(-1), s};
}

/// As PyTorch gives them: for more rows than columns and full rank, of every matrix.
bool has_residuals(const Tensor& a, const LeastSquares& found, std::string_view driver) {
  if (a.size(-2) <= a.size(-1) || driver == "gelsy") return false;
  return driver == "gels" || found.rank.eq(a.size(-1)).all().item<bool>();
}

/// LAPACK writes the solution over the right-hand sides, which have room for the longer of both.
Tensor in_place_of(const Tensor& b, const Tensor& solution) {
  at::DimVector sizes(solution.sizes());
  sizes[sizes.size() - 2] = std::max(b.size(-2), solution.size(-2));
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  const Tensor room = at::empty(sizes, b.options()).mT();
  return room.narrow(-2, 0, solution.size(-2)).copy_(solution);
}

void check_lstsq(const Tensor& a, const Tensor& b, std::string_view driver) {
  TORCH_CHECK(a.dim() >= 2, "torch.linalg.lstsq: input must have at least 2 dimensions.");
  TORCH_CHECK(b.dim() >= 1, "torch.linalg.lstsq: other must have at least 1 dimension.");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "torch.linalg.lstsq: Expected input and other to have the same dtype, but got "
              "input's dtype ",
              a.scalar_type(), " and other's dtype ", b.scalar_type());
  const int64_t difference = a.dim() - b.dim();
  TORCH_CHECK(difference == 0 || difference == 1,
              "torch.linalg.lstsq: input.dim() must be greater or equal to other.dim() and "
              "(input.dim() - other.dim()) <= 1");
  TORCH_CHECK(
      driver == "gels" || driver == "gelsy" || driver == "gelsd" || driver == "gelss",
      "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
  TORCH_CHECK(at::isFloatingType(a.scalar_type()) || a.is_complex(),
              "This function doesn't handle types other than float and double");
}

Four lstsq(const Tensor& a, const Tensor& other, std::optional<double> rcond, Driver given) {
  const std::string_view driver = given.value_or("gelsy");
  check_lstsq(a, other, driver);
  const bool is_vector = at::native::linalg_solve_is_vector_rhs(a, other);
  Tensor b = is_vector ? other.unsqueeze(-1) : other;
  const int64_t m = a.size(-2), n = a.size(-1);
  TORCH_CHECK(m == b.size(-2), "torch.linalg.lstsq: input.size(-2) should match other.size(",
              is_vector ? -1 : -2, ")");
  const at::ScalarType real = c10::toRealValueType(a.scalar_type());
  const double epsilon = at::native::_get_epsilon(real);
  LeastSquares found{
      {}, at::empty({0}, a.options().dtype(at::kLong)), at::empty({0}, a.options().dtype(real))};
  if (driver == "gels") {
    const Tensor is_zero = a.eq(0).flatten(-2).all(-1, /*keepdim=*/true).unsqueeze(-1);
    b = b.masked_fill(is_zero, 0);
    found.solution = solve_full_rank(a, b, is_zero);
  } else {
    const Tensor none = found.singular_values;
    found = solve_any_rank(a, b, rcond.value_or(epsilon * static_cast<double>(std::max(m, n))));
    if (driver == "gelsy") found.singular_values = none;
  }
  Tensor residuals = at::empty({0}, a.options().dtype(real));
  if (has_residuals(a, found, driver)) {
    residuals = a.matmul(found.solution).sub(b).abs().square().sum(-2);
  }
  const Tensor x = in_place_of(b, found.solution);
  return {is_vector ? x.squeeze(-1) : x, residuals, found.rank, found.singular_values};
}

std::tuple<Tensor&, Tensor&, Tensor&, Tensor&> lstsq_out(const Tensor& a, const Tensor& b,
                                                         std::optional<double> rcond, Driver driver,
                                                         Tensor& solution, Tensor& residuals,
                                                         Tensor& rank, Tensor& singular_values) {
  const auto [x, left, r, s] = lstsq(a, b, rcond, driver);
  write_out(x, solution, "solution", "torch.linalg.lstsq");
  write_out(left, residuals, "residuals", "torch.linalg.lstsq");
  write_out(r, rank, "rank", "torch.linalg.lstsq");
  write_out(s, singular_values, "singular_values", "torch.linalg.lstsq");
  return {solution, residuals, rank, singular_values};
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def("eigh(Tensor A, str UPLO, bool compute_v) -> (Tensor, Tensor, Tensor)");
  m.def("eig(Tensor A, bool compute_v) -> (Tensor, Tensor, Tensor)");
  m.def("svd(Tensor A, bool full_matrices, bool compute_uv) -> (Tensor, Tensor, Tensor, Tensor)");
}

// Result types: PyTorch's, and an info for each matrix.

Tensor info_meta(const Tensor& a) {
  return at::empty(a.sizes().slice(0, a.dim() - 2), a.options().dtype(at::kInt));
}

/// A new tensor of the same type whose columns are dense, as LAPACK wants them.
Tensor column_major(const Tensor& like) {
  return at::empty(like.mT().sizes(), like.options()).mT();
}

Three eigh_meta(const Tensor& a, std::string_view uplo, bool compute_v) {
  auto [values, vectors] = at::_linalg_eigh(a, uplo, compute_v);
  return {values, vectors, info_meta(a)};
}

Four svd_meta(const Tensor& a, bool full_matrices, bool compute_uv) {
  auto [u, s, vh] = at::_linalg_svd(a, full_matrices, compute_uv);
  return {u, s, compute_uv ? column_major(vh) : vh, info_meta(a)};
}

Three eig_meta(const Tensor& a, bool compute_v) {
  const Tensor z = a.is_complex() ? a : at::empty_like(a, c10::toComplexType(a.scalar_type()));
  const Tensor values = at::empty(a.sizes().slice(0, a.dim() - 1), z.options());
  return {values, compute_v ? column_major(z) : at::empty({0}, z.options()), info_meta(a)};
}

/// PyTorch has none.
Two geqrf_meta(const Tensor& a) {
  TORCH_CHECK(a.dim() >= 2, "torch.geqrf: input must have at least 2 dimensions.");
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(a.scalar_type()) || a.is_complex(),
                              "\"geqrf_cpu\" not implemented for '", a.scalar_type(), "'");
  at::DimVector tau(a.sizes().begin(), a.sizes().end() - 1);
  tau.back() = std::min(a.size(-2), a.size(-1));
  return {column_major(a), at::empty(tau, a.options())};
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) {
  m.impl("eigh", eigh_meta);
  m.impl("svd", svd_meta);
  m.impl("eig", eig_meta);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) { m.impl("geqrf", geqrf_meta); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_linalg_eigh", eigh);
  m.impl("_linalg_svd", svd);
  m.impl("linalg_eig", eig);
  m.impl("linalg_eig.out", eig_out);
  m.impl("_linalg_eigvals", eigvals);
  m.impl("linalg_eigvals.out", eigvals_out);
  m.impl("linalg_lstsq", lstsq);
  m.impl("linalg_lstsq.out", lstsq_out);
  for (const char* name : {"_linalg_eigh.eigenvalues", "_linalg_svd.U"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_through_functional>());
  }
}

}  // namespace
}  // namespace torch_tpu::aten
