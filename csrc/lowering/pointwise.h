// How the pointwise families read operands and round results, and templates that make a lowering of
// a function on values.
#pragma once

#include "lowering/cast.h"
#include "lowering/context.h"
#include "stablehlo/math.h"

namespace torch_tpu::lowering {

/// The promoted dtype, or PyTorch's default dtype where that is an integer (sin, true division).
inline DType float_common(const Context& ctx) {
  const DType common = ctx.common();
  if (is_float(common) || is_complex(common)) return common;
  const DType out = ctx.out().dtype;
  return is_float(out) || is_complex(out) ? out : DType::F32;
}

/// Argument i, a tensor or Scalar, rounded to `dtype` and widened to what PyTorch computes in.
inline Value operand(const Context& ctx, size_t i, DType dtype) {
  return cast(ctx.scalar(i, dtype), Context::compute_dtype(dtype));
}

/// As operand, broadcast to the shape of the result.
inline Value full_operand(const Context& ctx, size_t i, DType dtype) {
  return broadcast_to(operand(ctx, i, dtype), ctx.out().dims);
}

/// A Scalar parameter (alpha, beta, a threshold) of a function that computes in
/// compute_dtype(dtype): PyTorch does not round it to a narrow float.
inline Value parameter(const Context& ctx, size_t i, DType dtype) {
  return ctx.scalar(i, Context::compute_dtype(dtype));
}

/// A Scalar that is written to a tensor. To a bool it goes with its value, not cut to an integer.
inline Value written_scalar(const Context& ctx, size_t i, DType dtype) {
  if (dtype != DType::Pred) return ctx.scalar(i, dtype);
  const ScalarKind kind = ctx.scalar_kind(i);
  const DType carrier = kind == ScalarKind::Float     ? DType::F64
                        : kind == ScalarKind::Complex ? DType::C128
                                                      : DType::S64;
  return cast(ctx.scalar(i, carrier), DType::Pred);
}

using Unary = Value (*)(Value);
using Binary = Value (*)(Value, Value);

/// f in the promoted dtype.
template <Unary f>
Values unary(Context& ctx) {
  const DType dtype = ctx.common();
  return {cast(f(operand(ctx, 0, dtype)), dtype)};
}

/// f in the promoted dtype, or the default dtype for integers.
template <Unary f>
Values float_unary(Context& ctx) {
  const DType dtype = float_common(ctx);
  return {cast(f(operand(ctx, 0, dtype)), dtype)};
}

/// f on the tensor as it is; the result has the dtype that f gives it.
template <Unary f>
Values raw_unary(Context& ctx) {
  return {f(ctx.tensor(0))};
}

template <Binary f>
Values binary(Context& ctx) {
  const DType dtype = ctx.common();
  return {cast(f(full_operand(ctx, 0, dtype), full_operand(ctx, 1, dtype)), dtype)};
}

template <Binary f>
Values float_binary(Context& ctx) {
  const DType dtype = float_common(ctx);
  return {cast(f(full_operand(ctx, 0, dtype), full_operand(ctx, 1, dtype)), dtype)};
}

/// f on operands in the promoted dtype, not widened; the result has the dtype that f gives it.
template <Binary f>
Values raw_binary(Context& ctx) {
  const DType dtype = ctx.common();
  const Dims& dims = ctx.out().dims;
  return {f(broadcast_to(ctx.scalar(0, dtype), dims), broadcast_to(ctx.scalar(1, dtype), dims))};
}

/// An operation of CHLO, such as "chlo.erf".
inline Value chlo(std::string_view op, Value x) { return x.builder().unary(op, x); }

inline bool is_integral(Value x) { return is_int(x.dtype()) || x.dtype() == DType::Pred; }

inline Value constant_pred(Value x, bool value) {
  return x.builder().constant_int(DType::Pred, value, x.dims());
}

/// Whether any element is true, as the condition of a loop needs it.
inline Value any(Value pred) { return reduce_or(pred, all_dims(pred)); }

/// Where the sign bit is set, of -0 and NaN too.
Value sign_bit(Value x);
/// Infinite, of either sign; false for integers.
Value is_inf(Value x);
/// Magnitude of a, sign of b (of -0 and NaN too).
Value copy_sign(Value a, Value b);
/// Toward zero, keeping the sign of zero.
Value trunc(Value x);
/// erf that is exactly 1 or -1 where that is the nearest number; XLA's may stay one step below, and
/// the difference from 1 then grows with x in gelu.
Value exact_erf(Value x);
/// Polynomial by Horner's rule, the coefficient of the highest power first.
Value polynomial(Value x, std::span<const double> coefficients);

}  // namespace torch_tpu::lowering
