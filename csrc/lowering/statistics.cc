// Variance, standard deviation and vector norms.
#include "lowering/families.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {

namespace {

struct Variance {
  Value variance;
  Value mean;
};

/// Of (self, dim, *, correction, keepdim), reduced dimensions kept. The variance of complex numbers
/// is that of the real parts plus that of the imaginary parts.
Variance variance(const Context& ctx) {
  const Value x = widen(ctx.tensor(0));
  const Dims dims = dims_argument(ctx, 1, x.rank());
  const Value correction = ctx.scalar_or(2, stablehlo::real_dtype(x.dtype()), 1.0);
  const Value freedom = static_cast<double>(count(x, dims)) - correction;
  const Value divisor = stablehlo::maximum(freedom, stablehlo::zeros_like(freedom));
  if (!stablehlo::is_complex(x.dtype())) {
    const Moments m = moments(x, dims);
    return {m.squares / divisor, m.mean};
  }
  const Moments re = moments(ctx.b.real(x), dims);
  const Moments im = moments(ctx.b.imag(x), dims);
  return {(re.squares + im.squares) / divisor, ctx.b.complex(re.mean, im.mean)};
}

Values var(Context& ctx) { return {shaped(ctx, variance(ctx).variance)}; }

Values std_deviation(Context& ctx) {
  return {shaped(ctx, stablehlo::sqrt(variance(ctx).variance))};
}

Values var_mean(Context& ctx) {
  const Variance v = variance(ctx);
  return {shaped(ctx, v.variance, 0), shaped(ctx, v.mean, 1)};
}

Values std_mean(Context& ctx) {
  const Variance v = variance(ctx);
  return {shaped(ctx, stablehlo::sqrt(v.variance), 0), shaped(ctx, v.mean, 1)};
}

/// Of (self, ord, dim, keepdim, dtype): argument positions as given, -1 for what the operator
/// lacks.
Values norm_of(Context& ctx, int dims_at, int dtype_at) {
  Value x = ctx.tensor(0);
  if (dtype_at >= 0 && ctx.has(dtype_at)) x = cast(x, *ctx.dtype(dtype_at));
  x = widen(x);
  const double ord = ctx.has(1) ? ctx.number(1) : 2.0;
  const Dims dims = dims_at < 0 ? stablehlo::all_dims(x) : dims_argument(ctx, dims_at, x.rank());
  return {shaped(ctx, vector_norm(x, ord, dims))};
}

Values linalg_vector_norm(Context& ctx) { return norm_of(ctx, 2, 4); }
Values norm_all(Context& ctx) { return norm_of(ctx, -1, -1); }
Values norm_all_dtype(Context& ctx) { return norm_of(ctx, -1, 2); }
Values norm_dims(Context& ctx) { return norm_of(ctx, 2, -1); }
Values norm_dims_dtype(Context& ctx) { return norm_of(ctx, 2, 4); }

/// (self, ord, dim, keepdim, dtype) -> sum |self|^ord.
Values linalg_powsum(Context& ctx) {
  Value x = stablehlo::abs(widen(ctx.tensor(0)));
  if (ctx.has(4)) x = widen(cast(x, *ctx.dtype(4)));
  return {shaped(ctx, power_sum(x, ctx.number(1), dims_argument(ctx, 2, x.rank())))};
}

/// Scales the slices along a dimension whose norm is too large.
Values renorm(Context& ctx) {
  const Value x = widen(ctx.tensor(0));
  const int64_t dim = stablehlo::wrap_dim(ctx.integer(2), x.rank());
  const Value norm = vector_norm(x, ctx.number(1), other_dims(x, dim), true);
  const Value limit = ctx.scalar(3, norm.dtype());
  const Value scale = stablehlo::where(stablehlo::gt(norm, limit), limit / (norm + 1e-7),
                                       stablehlo::ones_like(norm));
  return {x * cast(scale, x.dtype())};
}

}  // namespace

Table statistics_table() {
  return {
      {"aten::var.correction", var},
      {"aten::std.correction", std_deviation},
      {"aten::var_mean.correction", var_mean},
      {"aten::std_mean.correction", std_mean},
      {.name = "aten::linalg_vector_norm", .lower = linalg_vector_norm, .static_args = {1}},
      {.name = "aten::linalg__powsum", .lower = linalg_powsum, .static_args = {1}},
      {.name = "aten::norm.Scalar", .lower = norm_all, .static_args = {1}},
      {.name = "aten::norm.ScalarOpt_dtype", .lower = norm_all_dtype, .static_args = {1}},
      {.name = "aten::norm.ScalarOpt_dim", .lower = norm_dims, .static_args = {1}},
      {.name = "aten::norm.ScalarOpt_dim_dtype", .lower = norm_dims_dtype, .static_args = {1}},
      {.name = "aten::renorm", .lower = renorm, .static_args = {1}},
  };
}

}  // namespace torch_tpu::lowering
