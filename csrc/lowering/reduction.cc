// Sums, products, extrema, their positions, and other reductions over dimensions.
#include "lowering/families.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {

namespace {

/// The operand in the dtype in which results of result 0's dtype accumulate.
Value accumulated(const Context& ctx) {
  const Value x = ctx.tensor(0);
  const DType dtype = Context::compute_dtype(ctx.out().dtype);
  // A mask is counted in 32 bits where that is enough: 64-bit integers are slow on a TPU.
  const bool narrow = x.dtype() == DType::Pred && dtype == DType::S64;
  return cast(x, narrow ? position_dtype(x.numel()) : dtype);
}

/// The dimensions that argument 1 names: a list, or one int in the operators called `.dim`.
Dims reduced(const Context& ctx, Value x) {
  const bool single = ctx.op.name.ends_with(".dim") || ctx.op.name.ends_with(".dim_int");
  return single ? dim_argument(ctx, 1, x.rank()) : dims_argument(ctx, 1, x.rank());
}

Values sum_all(Context& ctx) {
  const Value x = accumulated(ctx);
  return {sum(x, stablehlo::all_dims(x))};
}

Values sum_dims(Context& ctx) {
  const Value x = accumulated(ctx);
  return {shaped(ctx, sum(x, dims_argument(ctx, 1, x.rank())))};
}

Values mean_all(Context& ctx) {
  const Value x = accumulated(ctx);
  return {mean(x, stablehlo::all_dims(x))};
}

Values mean_dims(Context& ctx) {
  const Value x = accumulated(ctx);
  return {shaped(ctx, mean(x, dims_argument(ctx, 1, x.rank())))};
}

Values nansum(Context& ctx) {
  const Value x = accumulated(ctx);
  const Value numbers = stablehlo::where(stablehlo::is_nan(x), stablehlo::zeros_like(x), x);
  return {shaped(ctx, sum(numbers, dims_argument(ctx, 1, x.rank())))};
}

Value product(Value x, const Dims& dims) {
  return x.dtype() == DType::Pred ? stablehlo::reduce_and(x, dims)
                                  : stablehlo::reduce_prod(x, dims);
}

Values prod_all(Context& ctx) {
  const Value x = cast(ctx.tensor(0), Context::compute_dtype(ctx.out().dtype));
  return {product(x, stablehlo::all_dims(x))};
}

Values prod_dim(Context& ctx) {
  const Value x = cast(ctx.tensor(0), Context::compute_dtype(ctx.out().dtype));
  return {shaped(ctx, product(x, dim_argument(ctx, 1, x.rank())))};
}

using Extreme = Value (*)(Value, const Dims&, bool);

void require_elements(const Context& ctx, Value x) {
  if (x.numel() > 0) return;
  throw stablehlo::BuildError(std::string(ctx.op.name.substr(6)) +
                              "(): Expected reduction dim to be specified for input.numel() == 0. "
                              "Specify the reduction dim with the 'dim' argument.");
}

template <Extreme extreme>
Values extreme_all(Context& ctx) {
  const Value x = ctx.tensor(0);
  require_elements(ctx, x);
  return {extreme(x, stablehlo::all_dims(x), false)};
}

template <Extreme extreme>
Values extreme_dims(Context& ctx) {
  const Value x = ctx.tensor(0);
  return {shaped(ctx, extreme(x, dims_argument(ctx, 1, x.rank()), false))};
}

/// (values, indices) along argument 1.
template <Extreme extreme>
Values extreme_with_index(Context& ctx) {
  const Value x = ctx.tensor(0);
  if (x.rank() == 0) return {x, ctx.b.constant_int(DType::S64, 0)};
  const int64_t dim = stablehlo::wrap_dim(ctx.integer(1), x.rank());
  const Value best = extreme(x, {dim}, true);
  return {shaped(ctx, best, 0), shaped(ctx, position_of(x, best, dim), 1)};
}

template <Extreme extreme>
Values extreme_index(Context& ctx) {
  Value x = ctx.tensor(0);
  if (x.rank() == 0 || !ctx.has(1)) x = stablehlo::flatten(x);
  const int64_t dim = ctx.has(1) ? stablehlo::wrap_dim(ctx.integer(1), x.rank()) : 0;
  return {shaped(ctx, position_of(x, extreme(x, {dim}, true), dim))};
}

Values aminmax(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Dims dims = dim_argument(ctx, 1, x.rank());
  return {shaped(ctx, stablehlo::reduce_min(x, dims), 0),
          shaped(ctx, stablehlo::reduce_max(x, dims), 1)};
}

using Logical = Value (*)(Value, const Dims&, bool);

/// all, any. The result is Bool, but Byte for Byte operands, which the caller converts to.
template <Logical logical>
Values logical_reduction(Context& ctx) {
  const Value x = cast(ctx.tensor(0), DType::Pred);
  return {shaped(ctx, logical(x, reduced(ctx, x), false))};
}

Values count_nonzero(Context& ctx) {
  const Value x = cast(ctx.tensor(0), DType::Pred);
  const Dims dims = ctx.op.name.ends_with("IntList") ? dims_argument(ctx, 1, x.rank())
                                                     : dim_argument(ctx, 1, x.rank());
  return {shaped(ctx, sum(cast(x, position_dtype(x.numel())), dims))};
}

Values logsumexp(Context& ctx) {
  const Value x = cast(ctx.tensor(0), Context::compute_dtype(ctx.out().dtype));
  const Dims dims = dims_argument(ctx, 1, x.rank());
  // Shifted by the largest element; an infinite one leaves no shift, so that the sum shows it.
  Value shift = stablehlo::reduce_max(ctx.b.real(x), dims, true);
  const Value infinite =
      stablehlo::eq(stablehlo::abs(shift), std::numeric_limits<double>::infinity());
  shift = cast(stablehlo::where(infinite, 0.0, shift), x.dtype());
  const Value total = sum(stablehlo::exp(x - shift), dims, true);
  return {shaped(ctx, stablehlo::log(total) + shift)};
}

/// Exclusive or of the bits of all elements: of the double with its value, or of the sign-extended
/// integer.
Values hash_tensor(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Value bits = stablehlo::is_float(x.dtype())
                         ? ctx.b.bitcast_convert(cast(x, DType::F64), DType::U64)
                         : cast(x, DType::U64);
  const Value zero = ctx.b.constant_int(DType::U64, 0);
  return {shaped(ctx, ctx.b.reduce(bits, zero, dims_argument(ctx, 1, x.rank()), "xor"))};
}

}  // namespace

Table reduction_table() {
  using stablehlo::reduce_and;
  using stablehlo::reduce_max;
  using stablehlo::reduce_min;
  using stablehlo::reduce_or;
  return {
      {"aten::sum", sum_all},
      {"aten::sum.dim_IntList", sum_dims},
      {"aten::nansum", nansum},
      {"aten::mean", mean_all},
      {"aten::mean.dim", mean_dims},
      {"aten::prod", prod_all},
      {"aten::prod.dim_int", prod_dim},
      {"aten::amax", extreme_dims<reduce_max>},
      {"aten::amin", extreme_dims<reduce_min>},
      {"aten::aminmax", aminmax},
      {"aten::_aminmax", aminmax},
      {"aten::_aminmax.dim", aminmax},
      {"aten::max", extreme_all<reduce_max>},
      {"aten::min", extreme_all<reduce_min>},
      {"aten::max.dim", extreme_with_index<reduce_max>},
      {"aten::min.dim", extreme_with_index<reduce_min>},
      {"aten::argmax", extreme_index<reduce_max>},
      {"aten::argmin", extreme_index<reduce_min>},
      {"aten::all", logical_reduction<reduce_and>},
      {"aten::all.dim", logical_reduction<reduce_and>},
      {"aten::all.dims", logical_reduction<reduce_and>},
      {"aten::any", logical_reduction<reduce_or>},
      {"aten::any.dim", logical_reduction<reduce_or>},
      {"aten::any.dims", logical_reduction<reduce_or>},
      {"aten::count_nonzero", count_nonzero},
      {"aten::count_nonzero.dim_IntList", count_nonzero},
      {"aten::logsumexp", logsumexp},
      {"aten::hash_tensor", hash_tensor},
  };
}

}  // namespace torch_tpu::lowering
