// Solvers and determinants by way of the LU decomposition, as PyTorch composes them on its own
// devices.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_linalg_check_errors.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/linalg_lu_factor_ex.h>
#include <ATen/ops/linalg_lu_solve.h>
#include <torch/library.h>

#include "aten/native.h"

namespace torch_tpu::aten {
namespace {

void check_square(const at::Tensor& a, const char* name) {
  TORCH_CHECK(a.dim() >= 2, name, ": The input tensor A must have at least 2 dimensions.");
  TORCH_CHECK(a.size(-1) == a.size(-2), name,
              ": A must be batches of square matrices, but they are ", a.size(-2), " by ",
              a.size(-1), " matrices");
  TORCH_CHECK(at::isFloatingType(a.scalar_type()) || a.is_complex(), name,
              ": Expected a floating point or complex tensor as input. Got ", a.scalar_type());
}

using Factors = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Factors decompose(const at::Tensor& a) {
  return at::linalg_lu_factor_ex(a, /*pivot=*/true, /*check_errors=*/false);
}

/// PyTorch's derivatives of determinants expect the decomposition of the transpose here.
Factors decompose_for_det(const at::Tensor& a) {
  return decompose(a.is_contiguous() && !a.is_complex() ? a.mT() : a);
}

using Solution = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

Solution solve_ex(const at::Tensor& a, const at::Tensor& b, bool left, bool check_errors) {
  check_square(a, "linalg.solve");
  TORCH_CHECK(a.scalar_type() == b.scalar_type(),
              "linalg.solve: Expected A and B to have the same dtype, "
              "but found A of type ",
              a.scalar_type(), " and B of type ", b.scalar_type(), " instead");
  const at::IntArrayRef batch = a.sizes().slice(0, a.dim() - 1);
  const bool is_vector = b.dim() == 1 || (b.dim() == a.dim() - 1 && b.sizes() == batch);
  TORCH_CHECK(
      left || !is_vector,
      "linalg.solve: Vector broadcasting of the left hand side is not "
      "supported for left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)");
  auto [lu, pivots, info] = decompose(a);
  if (check_errors) at::_linalg_check_errors(info, "torch.linalg.solve_ex", a.dim() == 2);
  const at::Tensor columns = is_vector ? b.unsqueeze(-1) : b;
  const at::Tensor x = at::linalg_lu_solve(lu, pivots, columns, left, /*adjoint=*/false);
  return {is_vector ? x.squeeze(-1) : x, lu, pivots, info};
}

/// The determinant of the permutation: each pivot that is not on the diagonal changes the sign.
at::Tensor permutation_sign(const at::Tensor& pivots) {
  const at::Tensor in_place = at::arange(1, pivots.size(-1) + 1, pivots.options());
  return pivots.ne(in_place).sum(-1).remainder(2).mul(-2).add(1);
}

Factors det(const at::Tensor& a) {
  check_square(a, "linalg.det");
  auto [lu, pivots, info] = decompose_for_det(a);
  const at::Tensor product = lu.diagonal(0, -2, -1).prod(-1);
  return {product.mul(permutation_sign(pivots)), lu, pivots};
}

Solution slogdet(const at::Tensor& a) {
  check_square(a, "linalg.slogdet");
  auto [lu, pivots, info] = decompose_for_det(a);
  const at::Tensor diagonal = lu.diagonal(0, -2, -1);
  return {diagonal.sgn().prod(-1).mul(permutation_sign(pivots)), diagonal.abs().log().sum(-1), lu,
          pivots};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_linalg_solve_ex", solve_ex);
  m.impl("_linalg_det", det);
  m.impl("_linalg_slogdet", slogdet);
  for (const char* name :
       {"_linalg_solve_ex.result", "_linalg_det.result", "_linalg_slogdet.sign"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_through_functional>());
  }
}

}  // namespace
}  // namespace torch_tpu::aten
