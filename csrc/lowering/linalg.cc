// Cholesky factors, triangular systems, and small products of vectors and matrices.
#include "lowering/linalg.h"

#include <algorithm>

#include "lowering/families.h"

namespace torch_tpu::lowering {

Value flatten_batch(Value x) {
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1);
  return reshape(x, {stablehlo::numel(batch_of(x)), rows, columns});
}

Value conjugate(Value x) {
  if (!is_complex(x.dtype())) return x;
  return x.builder().complex(x.builder().real(x), -x.builder().imag(x));
}

Value adjoint(Value x) { return conjugate(swap_last(x)); }

Dims batch_of(Value x) { return Dims(x.dims().begin(), x.dims().end() - 2); }

Dims matrix_dims(const Dims& batch, int64_t rows, int64_t columns) {
  Dims dims = batch;
  dims.push_back(rows);
  dims.push_back(columns);
  return dims;
}

Value broadcast_batch(Value x, const Dims& batch) {
  return broadcast_to(x, matrix_dims(batch, x.dim(x.rank() - 2), x.dim(x.rank() - 1)));
}

namespace {

Value rows_of(Value x) { return iota_like(x, x.rank() - 2, DType::S32); }
Value columns_of(Value x) { return iota_like(x, x.rank() - 1, DType::S32); }

}  // namespace

Value identity(Builder& b, DType dtype, const Dims& batch, int64_t n) {
  const Value zeros = b.zeros({dtype, matrix_dims(batch, n, n)});
  return where(eq(rows_of(zeros), columns_of(zeros)), ones_like(zeros), zeros);
}

Value lower_triangle(Value x, int64_t k) {
  const Value kept = ge(rows_of(x) + constant_int_like(rows_of(x), k), columns_of(x));
  return where(kept, x, zeros_like(x));
}

Value upper_triangle(Value x, int64_t k) {
  const Value kept = le(rows_of(x) + constant_int_like(rows_of(x), k), columns_of(x));
  return where(kept, x, zeros_like(x));
}

Value diagonal(Value x) {
  const Dims batch = batch_of(x);
  const int64_t rows = x.dim(x.rank() - 2), columns = x.dim(x.rank() - 1);
  const int64_t n = std::min(rows, columns);
  Dims flat = batch;
  flat.push_back(rows * columns);
  const Value elements = reshape(x, flat);
  if (n == 0) return slice_dim(elements, x.rank() - 2, 0, 0);
  return slice_dim(elements, x.rank() - 2, 0, (n - 1) * (columns + 1) + 1, columns + 1);
}

Value first_position(Value flag) {
  const int64_t last = flag.rank() - 1;
  const Value position = iota_like(flag, last, DType::S32) + 1.0;
  const Value none = flag.builder().highest(DType::S32);
  const Value first = reduce_min(where(flag, position, none), {last});
  return where(eq(first, none), zeros_like(first), first);
}

Value matrix_product(Value a, Value b) {
  const int64_t batch = a.rank() - 2;
  stablehlo::DotDims dims{{}, {}, {batch + 1}, {batch}};
  for (int64_t i = 0; i < batch; ++i) {
    dims.lhs_batch.push_back(i);
    dims.rhs_batch.push_back(i);
  }
  return a.builder().dot_general(a, b, dims, stablehlo::Precision::Highest, a.dtype());
}

Value solve_triangle(Value a, Value b, const Triangle& t) {
  if (b.numel() == 0) return b;
  return a.builder().triangular_solve(a, b, t.left, t.lower, t.unit, t.transpose);
}

namespace {

Value cross_component(Value a, Value b, int64_t dim, int64_t first, int64_t second) {
  const auto at = [&](Value x, int64_t i) { return slice_dim(x, dim, i, i + 1); };
  return at(a, first) * at(b, second) - at(a, second) * at(b, first);
}

/// (self, other, dim)
Values cross(Context& ctx) {
  const Dims& dims = ctx.out().dims;
  const DType dtype = ctx.out().dtype;
  const Value a = broadcast_to(convert(ctx.tensor(0), dtype), dims);
  const Value b = broadcast_to(convert(ctx.tensor(1), dtype), dims);
  const int64_t dim = stablehlo::wrap_dim(ctx.integer_or(2, -1), a.rank());
  const Values parts{cross_component(a, b, dim, 1, 2), cross_component(a, b, dim, 2, 0),
                     cross_component(a, b, dim, 0, 1)};
  return {ctx.b.concatenate(parts, dim)};
}

/// Reads only one triangle of x, as LAPACK.
Value cholesky_factor(Value x, bool upper) {
  if (x.numel() == 0) return x;
  const Value factor = x.builder().cholesky(x, !upper);
  return upper ? upper_triangle(factor) : lower_triangle(factor);
}

/// (self, upper)
Values cholesky(Context& ctx) { return {cholesky_factor(ctx.tensor(0), ctx.flag_or(1, false))}; }

/// Where numbers, or real parts, are not positive.
Value not_positive(Value x) {
  if (is_complex(x.dtype())) x = x.builder().real(x);
  return logical_not(gt(x, zeros_like(x)));
}

/// (self, upper, check_errors) -> factor, info
Values cholesky_ex(Context& ctx) {
  const Value x = ctx.tensor(0);
  const bool upper = ctx.flag_or(1, false);
  if (x.numel() == 0) return {x, ctx.b.zeros(ctx.out(1))};
  const Value factor = cholesky_factor(x, upper);
  // XLA fills a matrix that is not positive definite with NaN. Only then is it worth to find out
  // the first leading minor that is not positive: that of the first such pivot.
  const Value failed = reduce_or(not_positive(diagonal(factor)), all_dims(diagonal(factor)));
  const Value triangle = upper ? adjoint(upper_triangle(x)) : lower_triangle(x);
  const Value hermitian = triangle + adjoint(lower_triangle(triangle, -1));
  const Values info = ctx.b.if_else(
      failed,
      [&](Builder&, std::span<const Value>) -> Values {
        return {reshape(first_position(not_positive(pivots_in_order(hermitian))), ctx.out(1).dims)};
      },
      [&](Builder& b, std::span<const Value>) -> Values { return {b.zeros(ctx.out(1))}; });
  return {factor, info[0]};
}

/// Solves factor factor^H x = b (upper: factor^H factor x = b).
Value cholesky_solve_with(Value factor, Value b, bool upper) {
  const std::string_view plain = "NO_TRANSPOSE", adjoint = "ADJOINT";
  const Value y =
      solve_triangle(factor, b, {.lower = !upper, .transpose = upper ? adjoint : plain});
  return solve_triangle(factor, y, {.lower = !upper, .transpose = upper ? plain : adjoint});
}

/// (self, upper)
Values cholesky_inverse(Context& ctx) {
  const Value factor = ctx.tensor(0);
  const Value unit =
      identity(ctx.b, factor.dtype(), batch_of(factor), factor.dim(factor.rank() - 1));
  return {cholesky_solve_with(factor, unit, ctx.flag_or(1, false))};
}

/// (self, A, upper): self is the right-hand side, A the factor
Values cholesky_solve(Context& ctx) {
  const Dims batch(ctx.out().dims.begin(), ctx.out().dims.end() - 2);
  return {cholesky_solve_with(broadcast_batch(ctx.tensor(1), batch),
                              broadcast_batch(ctx.tensor(0), batch), ctx.flag(2))};
}

/// (self, A, upper, transpose, unitriangular) -> solution, copy of A
Values triangular_solve(Context& ctx) {
  const Dims batch(ctx.out().dims.begin(), ctx.out().dims.end() - 2);
  const Value a = broadcast_batch(ctx.tensor(1), batch);
  const Value x =
      solve_triangle(a, broadcast_batch(ctx.tensor(0), batch),
                     {.lower = !ctx.flag_or(2, true),
                      .unit = ctx.flag_or(4, false),
                      .transpose = ctx.flag_or(3, false) ? "TRANSPOSE" : "NO_TRANSPOSE"});
  return {x, a};
}

/// (self, B, upper, left, unitriangular): self is the triangle
Values linalg_solve_triangular(Context& ctx) {
  const Dims batch(ctx.out().dims.begin(), ctx.out().dims.end() - 2);
  return {solve_triangle(
      broadcast_batch(ctx.tensor(0), batch), broadcast_batch(ctx.tensor(1), batch),
      {.left = ctx.flag_or(3, true), .lower = !ctx.flag(2), .unit = ctx.flag_or(4, false)})};
}

}  // namespace

Table linalg_table() {
  return {
      {.name = "aten::linalg_cross", .lower = cross},
      {.name = "aten::cholesky", .lower = cholesky},
      {.name = "aten::linalg_cholesky_ex", .lower = cholesky_ex},
      {.name = "aten::cholesky_inverse", .lower = cholesky_inverse},
      {.name = "aten::_cholesky_solve_helper", .lower = cholesky_solve},
      {.name = "aten::triangular_solve", .lower = triangular_solve},
      {.name = "aten::linalg_solve_triangular", .lower = linalg_solve_triangular},
  };
}

}  // namespace torch_tpu::lowering
