// Helpers of the matrix decompositions. Matrices are the last two dimensions, all before is the
// batch.
#pragma once

#include "lowering/context.h"

namespace torch_tpu::lowering {

/// [..., m, n] -> [batch, m, n], and back to dims of the same size.
Value flatten_batch(Value x);
Value conjugate(Value x);
/// The conjugate transpose.
Value adjoint(Value x);
/// Broadcasts the batch dimensions of a matrix.
Value broadcast_batch(Value x, const Dims& batch);
Dims batch_of(Value x);
Dims matrix_dims(const Dims& batch, int64_t rows, int64_t columns);
Value identity(Builder& b, DType dtype, const Dims& batch, int64_t n);
/// Elements above (or below) diagonal k are zero, as torch.tril (torch.triu).
Value lower_triangle(Value x, int64_t k = 0);
Value upper_triangle(Value x, int64_t k = 0);
/// The main diagonals.
Value diagonal(Value x);
/// 1 + the first position along the last dimension at which `flag` is true, 0 if there is none: the
/// `info` of LAPACK. S32.
Value first_position(Value flag);
/// The pivots [batch, n] of Gaussian elimination without exchanges.
Value pivots_in_order(Value a);
/// a @ b with equal batch dimensions, exact in the operands' dtype.
Value matrix_product(Value a, Value b);
/// Solves op(a) x = b, or x op(a) = b, with a triangular.
struct Triangle {
  bool left = true, lower = true, unit = false;
  std::string_view transpose = "NO_TRANSPOSE";
};
Value solve_triangle(Value a, Value b, const Triangle& triangle);

}  // namespace torch_tpu::lowering
