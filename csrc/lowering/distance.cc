// Distances between all pairs of rows (cdist, pdist) and their gradients.
#include <algorithm>
#include <cmath>

#include "lowering/context.h"
#include "lowering/families.h"

namespace torch_tpu::lowering {
namespace {

/// As PyTorch: with more rows than this, Euclidean distances come from one matrix product.
constexpr int64_t kDirectRows = 25;
enum ComputeMode : int64_t { kByRows = 0, kProduct = 1, kDirect = 2 };

Value constant(Value x, double value) { return x.builder().constant(x.dtype(), value, x.dims()); }

/// x^power for x >= 0; the usual powers without pow.
Value power(Value x, double exponent) {
  if (exponent == 1.0) return x;
  if (exponent == 2.0) return x * x;
  if (exponent == 0.5) return sqrt(x);
  return pow(x, constant(x, exponent));
}

/// The p-norm of differences over the last dimension.
Value norm(Value difference, double p) {
  const Dims last{difference.rank() - 1};
  const Value size = abs(difference);
  if (p == 0.0) return reduce_sum(convert(ne(size, 0.0), size.dtype()), last);
  if (std::isinf(p)) return reduce_max(size, last);
  return power(reduce_sum(power(size, p), last), 1.0 / p);
}

/// d norm / d difference, for each element: what the gradient of the distance (kept) is multiplied
/// with.
Value norm_derivative(Value difference, Value distance, double p) {
  const Value zero = zeros_like(difference);
  if (p == 0.0) return zero;
  const Value spread = broadcast_to(distance, difference.dims());
  if (p == 1.0) return sign(difference);
  const Value size = abs(difference);
  if (std::isinf(p)) return where(eq(size, spread), sign(difference), zero);
  Value undefined = eq(spread, 0.0);
  if (p < 1.0) undefined = logical_or(undefined, eq(difference, 0.0));
  const Value safe = where(undefined, ones_like(spread), spread);
  if (p == 2.0) return where(undefined, zero, difference / safe);
  const Value ratio =
      power(where(undefined, ones_like(size), size), p - 1.0) / power(safe, p - 1.0);
  return where(undefined, zero, sign(difference) * ratio);
}

/// a [..., P, M] - b [..., R, M] -> [..., P, R, M]
Value differences(Value a, Value b) { return unsqueeze(a, -2) - unsqueeze(b, b.rank() - 2); }

/// Sums over batch dimensions that were broadcast.
Value sum_to(Value x, const Dims& dims) {
  Dims summed;
  const int64_t shift = x.rank() - static_cast<int64_t>(dims.size());
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d < shift || (dims[d - shift] == 1 && x.dim(d) != 1)) summed.push_back(d);
  }
  return reshape(reduce_sum(x, summed), dims);
}

/// |a - b|^2 = |a|^2 - 2 a b + |b|^2, never negative. Always exact in f32: what cancels is large.
Value euclidean(Value a, Value b) {
  const int64_t batch = a.rank() - 2;
  const Dims dims = stablehlo::broadcast_shapes(Dims(a.dims().begin(), a.dims().end() - 2),
                                                Dims(b.dims().begin(), b.dims().end() - 2));
  const auto expand = [&](Value x) {
    Dims wide = dims;
    wide.insert(wide.end(), x.dims().end() - 2, x.dims().end());
    return broadcast_to(x, wide);
  };
  a = expand(a);
  b = expand(b);
  stablehlo::DotDims dot{{}, {}, {a.rank() - 1}, {b.rank() - 1}};
  for (int64_t i = 0; i < batch; ++i) {
    dot.lhs_batch.push_back(i);
    dot.rhs_batch.push_back(i);
  }
  const Value products =
      a.builder().dot_general(a, b, dot, stablehlo::Precision::Highest, a.dtype());
  const Value a_norm = unsqueeze(reduce_sum(a * a, {a.rank() - 1}), -1);
  const Value b_norm = unsqueeze(reduce_sum(b * b, {b.rank() - 1}), -2);
  const Value square = a_norm - products * 2.0 + b_norm;
  return sqrt(maximum(square, zeros_like(square)));
}

Value compute(Value x) { return convert(x, Context::compute_dtype(x.dtype())); }

/// (x1, x2, p, compute_mode)
Values cdist(Context& ctx) {
  const Value a = compute(ctx.tensor(0)), b = compute(ctx.tensor(1));
  const double p = ctx.number(2);
  if (ctx.out().numel() == 0 || a.dim(a.rank() - 1) == 0) return {ctx.b.zeros(ctx.out())};
  const int64_t mode = ctx.integer_or(3, kByRows);
  const bool many = std::max(a.dim(a.rank() - 2), b.dim(b.rank() - 2)) > kDirectRows;
  if (p == 2.0 && (mode == kProduct || (mode == kByRows && many))) return {euclidean(a, b)};
  return {norm(differences(a, b), p)};
}

/// (grad, x1, x2, p, cdist) -> gradient of x1
Values cdist_backward(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Value grad = unsqueeze(compute(ctx.tensor(0)), -1);
  const Value distance = unsqueeze(compute(ctx.tensor(4)), -1);
  const Value difference = differences(compute(ctx.tensor(1)), compute(ctx.tensor(2)));
  const Value terms = grad * norm_derivative(difference, distance, ctx.number(3));
  return {sum_to(reduce_sum(terms, {terms.rank() - 2}), ctx.out().dims)};
}

Values euclidean_dist(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  return {euclidean(compute(ctx.tensor(0)), compute(ctx.tensor(1)))};
}

/// (self, p): the pairs i < j of one set of rows, row by row.
Values pdist(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Value x = compute(ctx.tensor(0));
  const int64_t n = x.dim(0);
  const Value all = norm(differences(x, x), ctx.number(1));
  Values rows;
  for (int64_t i = 0; i + 1 < n; ++i) {
    rows.push_back(reshape(ctx.b.slice(all, {i, i + 1}, {i + 1, n}), {n - 1 - i}));
  }
  return {ctx.b.concatenate(rows, 0)};
}

/// (grad, self, p, pdist)
Values pdist_backward(Context& ctx) {
  const Value x = compute(ctx.tensor(1));
  const int64_t n = x.dim(0);
  if (ctx.out().numel() == 0 || n < 2) return {ctx.b.zeros(ctx.out())};
  const Value zero = ctx.b.constant(x.dtype(), 0.0);
  // The upper triangle row by row, then its mirror image.
  const auto square = [&](Value packed) {
    Values rows;
    int64_t start = 0;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t count = n - 1 - i;
      const Value row = slice_dim(packed, 0, start, start + count);
      rows.push_back(reshape(ctx.b.pad(row, zero, {i + 1}, {0}), {1, n}));
      start += count;
    }
    const Value upper = ctx.b.concatenate(rows, 0);
    return unsqueeze(upper + swap_last(upper), -1);
  };
  const Value grad = square(compute(ctx.tensor(0))), distance = square(compute(ctx.tensor(3)));
  return {reduce_sum(grad * norm_derivative(differences(x, x), distance, ctx.number(2)), {1})};
}

}  // namespace

Table distance_table() {
  return {
      {.name = "aten::_cdist_forward", .lower = cdist, .static_args = {2}},
      {.name = "aten::_cdist_backward", .lower = cdist_backward, .static_args = {3}},
      {.name = "aten::_euclidean_dist", .lower = euclidean_dist},
      {.name = "aten::_pdist_forward", .lower = pdist, .static_args = {1}},
      {.name = "aten::_pdist_backward", .lower = pdist_backward, .static_args = {2}},
  };
}

}  // namespace torch_tpu::lowering
