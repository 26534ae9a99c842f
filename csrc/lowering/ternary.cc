// Functions of three operands: selection, clamping, interpolation, fused products; and complex
// numbers from two reals.
#include <cmath>

#include "lowering/families.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {

namespace {

using stablehlo::is_complex;

Values where_self(Context& ctx) {
  const DType dtype = ctx.common();
  const Value pred = cast(ctx.tensor(0), DType::Pred);
  const Value chosen = where(pred, ctx.scalar(1, dtype), ctx.scalar(2, dtype));
  return {broadcast_to(chosen, ctx.out().dims)};
}

Values fill_where(Context& ctx, Value value) {
  const Value mask = cast(ctx.tensor(1), DType::Pred);
  const Value filled = where(mask, value, ctx.tensor(0));
  return {broadcast_to(filled, ctx.out().dims)};
}

Values masked_fill_scalar(Context& ctx) {
  return fill_where(ctx, written_scalar(ctx, 2, ctx.tensor(0).dtype()));
}

Values masked_fill_tensor(Context& ctx) {
  return fill_where(ctx, ctx.scalar(2, ctx.tensor(0).dtype()));
}

/// Bounds at `low` and `high`; an absent one does not bound. The upper wins where they cross, and
/// NaN in any of them is the result.
Values clamp_between(Context& ctx, size_t low, size_t high) {
  const DType dtype = ctx.common();
  Value x = full_operand(ctx, 0, dtype);
  if (low != 0 && ctx.has(low)) x = maximum(x, full_operand(ctx, low, dtype));
  if (high != 0 && ctx.has(high)) x = minimum(x, full_operand(ctx, high, dtype));
  return {cast(x, dtype)};
}

Values clamp(Context& ctx) { return clamp_between(ctx, 1, 2); }
Values clamp_min(Context& ctx) { return clamp_between(ctx, 1, 0); }
Values clamp_max(Context& ctx) { return clamp_between(ctx, 0, 1); }

/// From the end that is nearer, so that a weight of 1 gives the end exactly.
Values lerp(Context& ctx) {
  const DType dtype = ctx.common();
  const Value start = operand(ctx, 0, dtype), end = operand(ctx, 1, dtype);
  const Value weight = parameter(ctx, 2, dtype);
  Value small;
  if (is_complex(dtype)) {
    const Value re = ctx.b.real(weight), im = ctx.b.imag(weight);
    small = lt(re * re + im * im, 0.25);
  } else {
    small = lt(abs(weight), 0.5);
  }
  const Value span = end - start;
  const Value rest = ones_like(weight) - weight;
  return {cast(where(small, start + weight * span, end - span * rest), dtype)};
}

/// value * b, but for a value of 1.
Value scaled(const Context& ctx, DType dtype, Value b) {
  return ctx.special(3) == 1.0 ? b : parameter(ctx, 3, dtype) * b;
}

Values addcmul(Context& ctx) {
  const DType dtype = ctx.common();
  if (dtype == DType::Pred) {
    const Value product = logical_and(ctx.scalar(1, dtype), ctx.scalar(2, dtype));
    return {logical_or(ctx.scalar(0, dtype), logical_and(ctx.scalar(3, dtype), product))};
  }
  const Value factor = scaled(ctx, dtype, operand(ctx, 1, dtype));
  return {cast(operand(ctx, 0, dtype) + factor * operand(ctx, 2, dtype), dtype)};
}

Values addcdiv(Context& ctx) {
  const DType dtype = ctx.common();
  const Value factor = scaled(ctx, dtype, operand(ctx, 1, dtype));
  return {cast(operand(ctx, 0, dtype) + factor / operand(ctx, 2, dtype), dtype)};
}

/// The parts in the dtype of the result's parts; complex half does not exist here.
Values complex_parts(Context& ctx, Value (*re)(Value, Value), Value (*im)(Value, Value)) {
  const DType real = stablehlo::real_dtype(ctx.out().dtype);
  const Value a = full_operand(ctx, 0, real), b = full_operand(ctx, 1, real);
  return {ctx.b.complex(re(a, b), im(a, b))};
}

Values complex(Context& ctx) {
  return complex_parts(ctx, [](Value a, Value) { return a; }, [](Value, Value b) { return b; });
}

Values polar(Context& ctx) {
  return complex_parts(
      ctx, [](Value a, Value b) { return a * cos(b); },
      [](Value a, Value b) { return a * sin(b); });
}

}  // namespace

Table ternary_table() {
  const std::vector<double> plain{1.0};
  return {
      {.name = "aten::where.self", .lower = where_self, .promoted_args = {1, 2}},
      {.name = "aten::masked_fill.Scalar", .lower = masked_fill_scalar, .promoted_args = {0}},
      {.name = "aten::masked_fill.Tensor", .lower = masked_fill_tensor, .promoted_args = {0}},
      {.name = "aten::clamp", .lower = clamp},
      {.name = "aten::clamp.Tensor", .lower = clamp},
      {.name = "aten::clamp_min", .lower = clamp_min},
      {.name = "aten::clamp_min.Tensor", .lower = clamp_min},
      {.name = "aten::clamp_max", .lower = clamp_max},
      {.name = "aten::clamp_max.Tensor", .lower = clamp_max},
      {.name = "aten::lerp.Scalar", .lower = lerp, .promoted_args = {0, 1}},
      {.name = "aten::lerp.Tensor", .lower = lerp},
      {.name = "aten::addcmul",
       .lower = addcmul,
       .special_values = plain,
       .promoted_args = {0, 1, 2}},
      {.name = "aten::addcdiv",
       .lower = addcdiv,
       .special_values = plain,
       .promoted_args = {0, 1, 2}},
      {.name = "aten::complex", .lower = complex},
      {.name = "aten::polar", .lower = polar},
  };
}

}  // namespace torch_tpu::lowering
