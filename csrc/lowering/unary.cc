// Functions of one tensor that PyTorch counts as arithmetic; the special functions are in
// special_function.cc.
#include <cmath>
#include <numbers>

#include "lowering/families.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {

Value sign_bit(Value x) {
  const DType dtype = x.dtype();
  if (dtype == DType::Pred || is_unsigned_int(dtype)) return constant_pred(x, false);
  if (!is_float(dtype)) return lt(x, zeros_like(x));
  const int64_t bytes = byte_size(dtype);
  const DType bits = bytes == 1   ? DType::S8
                     : bytes == 2 ? DType::S16
                     : bytes == 4 ? DType::S32
                                  : DType::S64;
  const Value word = x.builder().bitcast_convert(x, bits);
  return lt(word, zeros_like(word));
}

Value is_inf(Value x) {
  if (is_integral(x)) return constant_pred(x, false);
  if (is_complex(x.dtype())) {
    return logical_or(is_inf(x.builder().real(x)), is_inf(x.builder().imag(x)));
  }
  return eq(abs(x), INFINITY);
}

Value copy_sign(Value a, Value b) {
  const Value magnitude = abs(a);
  return where(sign_bit(b), -magnitude, magnitude);
}

Value trunc(Value x) { return where(lt(x, 0.0), ceil(x), floor(x)); }

Value polynomial(Value x, std::span<const double> coefficients) {
  Value sum = constant_like(x, coefficients.front());
  for (const double c : coefficients.subspan(1)) sum = sum * x + c;
  return sum;
}

namespace {

Values abs_(Context& ctx) {
  const DType dtype = ctx.common();
  const Value x = operand(ctx, 0, dtype);
  if (dtype == DType::Pred || is_unsigned_int(dtype)) return {x};
  const DType real = is_complex(dtype) ? real_dtype(dtype) : dtype;
  return {cast(abs(x), real)};
}

/// -1, 0 or 1; as in PyTorch 0 for NaN and -0.
Value sign_of(Value x) {
  if (x.dtype() == DType::Pred) return x;
  const Value zero = zeros_like(x);
  const Value positive = convert(gt(x, zero), x.dtype());
  if (is_unsigned_int(x.dtype())) return positive;
  return positive - convert(lt(x, zero), x.dtype());
}

Value sgn(Value x) {
  if (!is_complex(x.dtype())) return sign_of(x);
  const Value size = cast(abs(x), x.dtype());
  const Value zero = zeros_like(x);
  return where(eq(x, zero), zero, x / size);
}

/// Rounding functions leave integers alone.
template <Unary f>
Value round_with(Value x) {
  return is_integral(x) ? x : f(x);
}

Value frac(Value x) { return x - trunc(x); }

Value reciprocal(Value x) { return ones_like(x) / x; }

/// Complex x times a real number, which a complex product would spoil at infinity.
Value scale(Value x, double factor) {
  if (!is_complex(x.dtype())) return x * factor;
  return x.builder().complex(x.builder().real(x) * factor, x.builder().imag(x) * factor);
}

Value exp2(Value x) {
  if (is_complex(x.dtype())) return exp(scale(x, std::numbers::ln2));
  return pow(constant_like(x, 2.0), x);
}

/// The logarithm, or the integer beside it if x is exactly that power of the base: rounding the
/// result down must not lose it.
Value exact_log(Value x, double base) {
  if (is_complex(x.dtype())) return scale(log(x), 1.0 / std::log(base));
  const Value y = log(x) / std::log(base);
  const Value whole = round_even(y);
  const Value power = pow(constant_like(x, base), whole);
  return where(logical_and(eq(power, x), x.builder().is_finite(whole)), whole, y);
}

Value log2(Value x) { return exact_log(x, 2.0); }
Value log10(Value x) { return exact_log(x, 10.0); }

enum class Side { Same, Opposite };

/// y with the sign of its parts from those of x: on a branch cut a complex function is continuous
/// from the side that the sign of a zero tells. Real functions have no cut.
Value imag_sign(Value y, Value x, Side side = Side::Same) {
  if (!is_complex(x.dtype())) return y;
  Builder& b = x.builder();
  const Value from = side == Side::Same ? b.imag(x) : -b.imag(x);
  return b.complex(b.real(y), copy_sign(b.imag(y), from));
}

Value real_sign(Value y, Value x) {
  if (!is_complex(x.dtype())) return y;
  Builder& b = x.builder();
  return b.complex(copy_sign(b.real(y), b.real(x)), b.imag(y));
}

Value sqrt_of(Value x) { return imag_sign(sqrt(x), x); }
Value acos(Value x) { return imag_sign(chlo("chlo.acos", x), x, Side::Opposite); }
Value acosh(Value x) { return imag_sign(chlo("chlo.acosh", x), x); }
Value asin(Value x) { return imag_sign(chlo("chlo.asin", x), x); }
Value asinh(Value x) { return real_sign(chlo("chlo.asinh", x), x); }
Value atan(Value x) { return chlo("chlo.atan", x); }
Value atanh(Value x) { return chlo("chlo.atanh", x); }

/// exp(x) / 2 for large x, where exp(x) may overflow.
Value half_exp(Value x) {
  const Value root = exp(x * 0.5);
  return 0.5 * root * root;
}

Value sinh(Value x) {
  if (is_complex(x.dtype())) return chlo("chlo.sinh", x);
  const Value size = abs(x);
  const Value e = expm1(size);
  const Value near = 0.5 * (e + e / (e + 1.0));
  return copy_sign(where(gt(size, 20.0), half_exp(size), near), x);
}

Value cosh(Value x) {
  if (is_complex(x.dtype())) return chlo("chlo.cosh", x);
  const Value size = abs(x);
  const Value e = exp(size);
  return where(gt(size, 20.0), half_exp(size), 0.5 * (e + 1.0 / e));
}

Value sinc(Value x) {
  const Value scaled = x * std::numbers::pi;
  const Value zero = zeros_like(x);
  return where(eq(x, zero), ones_like(x), sin(scaled) / scaled);
}

Value isnan(Value x) {
  if (is_integral(x)) return constant_pred(x, false);
  return ne(x, x);
}

Value isposinf(Value x) { return is_integral(x) ? constant_pred(x, false) : eq(x, INFINITY); }

Value isneginf(Value x) { return is_integral(x) ? constant_pred(x, false) : eq(x, -INFINITY); }

Value is_zero(Value x) { return logical_not(cast(x, DType::Pred)); }

Value bitwise_not(Value x) { return logical_not(x); }

Value conj(Value x) {
  if (!is_complex(x.dtype())) return x;
  return x.builder().complex(x.builder().real(x), -x.builder().imag(x));
}

Values angle(Context& ctx) {
  const DType dtype = float_common(ctx);
  const Value x = operand(ctx, 0, dtype);
  if (is_complex(dtype)) return {atan2(ctx.b.imag(x), ctx.b.real(x))};
  const Value zero = zeros_like(x);
  const Value of_number = where(lt(x, zero), std::numbers::pi, zero);
  return {cast(where(is_nan(x), x, of_number), dtype)};
}

Values round_decimals(Context& ctx) {
  const DType dtype = ctx.common();
  const Value x = operand(ctx, 0, dtype);
  const int64_t decimals = ctx.integer(1);
  if (is_integral(x) || decimals == 0) return {cast(round_with<stablehlo::round_even>(x), dtype)};
  // XLA makes the division by a constant a multiplication with its rounded inverse, which would
  // move ties. This is not a constant.
  const Value ten = constant_like(x, std::pow(10.0, std::abs(decimals)));
  const Value power = where(is_nan(x), x, ten);
  const Value scaled = decimals > 0 ? x * power : x / power;
  const Value whole = round_even(scaled);
  return {cast(decimals > 0 ? whole / power : whole * power, dtype)};
}

double largest(DType dtype) {
  switch (dtype) {
    case DType::F16:
      return 65504.0;
    case DType::BF16:
      return 0x1.fep127;
    case DType::F32:
      return 0x1.fffffep127;
    default:
      return 0x1.fffffffffffffp1023;
  }
}

Values nan_to_num(Context& ctx) {
  const DType dtype = ctx.common();
  const Value x = operand(ctx, 0, dtype);
  if (is_integral(x)) return {x};
  const DType real = is_complex(dtype) ? real_dtype(dtype) : dtype;
  const DType wide = Context::compute_dtype(real);
  const Value nan = ctx.scalar_or(1, wide, 0.0);
  const Value high = ctx.scalar_or(2, wide, largest(real));
  const Value low = ctx.scalar_or(3, wide, -largest(real));
  const auto clean = [&](Value v) {
    v = where(isposinf(v), high, where(isneginf(v), low, v));
    return where(is_nan(v), nan, v);
  };
  if (!is_complex(dtype)) return {cast(clean(x), dtype)};
  return {ctx.b.complex(clean(ctx.b.real(x)), clean(ctx.b.imag(x)))};
}

/// x = mantissa * 2^exponent with 0.5 <= |mantissa| < 1, from the bits of x.
Values frexp(Context& ctx) {
  const DType dtype = ctx.common();
  const Value x = operand(ctx, 0, dtype);
  const bool is_double = x.dtype() == DType::F64;
  const DType bits = is_double ? DType::S64 : DType::S32;
  const int mantissa_bits = is_double ? 52 : 23;
  const int64_t exponent_mask = is_double ? 0x7ff : 0xff;
  const int64_t bias = is_double ? 1022 : 126;
  const auto integer = [&](int64_t v) { return ctx.b.constant_int(bits, v, x.dims()); };
  const Value word = ctx.b.bitcast_convert(x, bits);
  const Value magnitude =
      logical_and(word, integer((exponent_mask << mantissa_bits) | ((1LL << mantissa_bits) - 1)));
  // A denormal's fraction has leading zeros: shift it up to where a normal one starts.
  const Value denormal = lt(magnitude, integer(1LL << mantissa_bits));
  const Value zeros = ctx.b.unary("count_leading_zeros", magnitude);
  const Value shift =
      where(denormal, zeros - integer((is_double ? 64 : 32) - mantissa_bits - 1), integer(0));
  const Value shifted = ctx.b.binary("shift_left", magnitude, shift);
  const Value biased = ctx.b.binary("shift_right_logical", magnitude, integer(mantissa_bits));
  const Value exponent = where(denormal, integer(1), biased) - shift - integer(bias);
  const Value fraction = logical_and(shifted, integer((1LL << mantissa_bits) - 1));
  const Value half = logical_or(fraction, integer(bias << mantissa_bits));
  const Value mantissa = copy_sign(ctx.b.bitcast_convert(half, x.dtype()), x);
  const Value special = logical_or(eq(magnitude, integer(0)), eq(biased, integer(exponent_mask)));
  return {cast(where(special, x, mantissa), dtype),
          convert(where(special, integer(0), exponent), DType::S32)};
}

}  // namespace

Table unary_table() {
  return {
      {.name = "aten::abs", .lower = abs_},
      {.name = "aten::neg", .lower = unary<stablehlo::operator- >},
      {.name = "aten::sign", .lower = unary<sign_of>},
      {.name = "aten::sgn", .lower = unary<sgn>},
      {.name = "aten::ceil", .lower = unary<round_with<stablehlo::ceil>>},
      {.name = "aten::floor", .lower = unary<round_with<stablehlo::floor>>},
      {.name = "aten::round", .lower = unary<round_with<stablehlo::round_even>>},
      {.name = "aten::round.decimals", .lower = round_decimals, .promoted_args = {0}},
      {.name = "aten::trunc", .lower = unary<round_with<trunc>>},
      {.name = "aten::frac", .lower = unary<frac>},
      {.name = "aten::reciprocal", .lower = float_unary<reciprocal>},
      {.name = "aten::exp", .lower = float_unary<stablehlo::exp>},
      {.name = "aten::exp2", .lower = float_unary<exp2>},
      {.name = "aten::expm1", .lower = float_unary<stablehlo::expm1>},
      {.name = "aten::log", .lower = float_unary<stablehlo::log>},
      {.name = "aten::log2", .lower = float_unary<log2>},
      {.name = "aten::log10", .lower = float_unary<log10>},
      {.name = "aten::log1p", .lower = float_unary<stablehlo::log1p>},
      {.name = "aten::sqrt", .lower = float_unary<sqrt_of>},
      {.name = "aten::rsqrt", .lower = float_unary<stablehlo::rsqrt>},
      {.name = "aten::sin", .lower = float_unary<stablehlo::sin>},
      {.name = "aten::cos", .lower = float_unary<stablehlo::cos>},
      {.name = "aten::tan", .lower = float_unary<stablehlo::tan>},
      {.name = "aten::sinh", .lower = float_unary<sinh>},
      {.name = "aten::cosh", .lower = float_unary<cosh>},
      {.name = "aten::tanh", .lower = float_unary<stablehlo::tanh>},
      {.name = "aten::asin", .lower = float_unary<asin>},
      {.name = "aten::acos", .lower = float_unary<acos>},
      {.name = "aten::atan", .lower = float_unary<atan>},
      {.name = "aten::asinh", .lower = float_unary<asinh>},
      {.name = "aten::acosh", .lower = float_unary<acosh>},
      {.name = "aten::atanh", .lower = float_unary<atanh>},
      {.name = "aten::sinc", .lower = float_unary<sinc>},
      {.name = "aten::sigmoid", .lower = float_unary<stablehlo::sigmoid>},
      {.name = "aten::isnan", .lower = raw_unary<isnan>},
      {.name = "aten::isinf", .lower = raw_unary<is_inf>},
      {.name = "aten::isposinf", .lower = raw_unary<isposinf>},
      {.name = "aten::isneginf", .lower = raw_unary<isneginf>},
      {.name = "aten::signbit", .lower = raw_unary<sign_bit>},
      {.name = "aten::logical_not", .lower = raw_unary<is_zero>},
      {.name = "aten::bitwise_not", .lower = raw_unary<bitwise_not>},
      {.name = "aten::conj_physical", .lower = raw_unary<conj>},
      {.name = "aten::_conj_physical", .lower = raw_unary<conj>},
      {.name = "aten::angle", .lower = angle},
      {.name = "aten::nan_to_num", .lower = nan_to_num, .promoted_args = {0}},
      {.name = "aten::frexp.Tensor", .lower = frexp},
  };
}

}  // namespace torch_tpu::lowering
