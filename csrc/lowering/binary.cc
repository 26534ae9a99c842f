// Arithmetic of two tensors, and the bitwise, logical and comparison operators.
#include <cmath>
#include <numbers>

#include "lowering/families.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {

namespace {

using stablehlo::is_complex;
using stablehlo::is_float;
using stablehlo::is_int;
using stablehlo::is_signed_int;

// ---- sums and products

/// a + alpha * b; on bool or and and.
Value add_scaled(const Context& ctx, size_t a, size_t b, double sign) {
  const DType dtype = ctx.common();
  // Not rounded to a narrow float before the sum: PyTorch adds a number in the wide type.
  const Value x = parameter(ctx, a, dtype);
  Value y = parameter(ctx, b, dtype);
  if (ctx.special(2) != 1.0) y = parameter(ctx, 2, dtype) * y;
  const Value sum = sign > 0 ? x + y : x - y;
  return cast(sum, dtype);
}

Values add(Context& ctx) {
  if (ctx.common() != DType::Pred) return {add_scaled(ctx, 0, 1, 1)};
  const Value scaled = logical_and(ctx.scalar(2, DType::Pred), ctx.scalar(1, DType::Pred));
  return {logical_or(ctx.scalar(0, DType::Pred), scaled)};
}

Values sub(Context& ctx) { return {add_scaled(ctx, 0, 1, -1)}; }
Values rsub(Context& ctx) { return {add_scaled(ctx, 1, 0, -1)}; }

Values add_relu(Context& ctx) {
  const Value sum = add_scaled(ctx, 0, 1, 1);
  return {maximum(sum, zeros_like(sum))};
}

Values mul(Context& ctx) {
  const DType dtype = ctx.common();
  const Value x = parameter(ctx, 0, dtype), y = parameter(ctx, 1, dtype);
  return {dtype == DType::Pred ? logical_and(x, y) : cast(x * y, dtype)};
}

// ---- division

/// The signs of two numbers differ, neither of them zero or NaN.
Value opposite_signs(Value a, Value b) {
  const Value zero = zeros_like(a);
  return ne(lt(a, zero), lt(b, zero));
}

/// Rounds toward negative infinity, from the exact remainder.
Value floor_quotient(Value a, Value b) {
  if (is_integral(a)) {
    const Value quotient = a / b;
    if (!is_signed_int(a.dtype())) return quotient;
    const Value inexact = ne(remainder(a, b), zeros_like(a));
    const Value below = logical_and(inexact, opposite_signs(a, b));
    return quotient - convert(below, a.dtype());
  }
  const Value zero = zeros_like(a);
  const Value rest = remainder(a, b);
  Value quotient = (a - rest) / b;
  const Value below = logical_and(ne(rest, zero), opposite_signs(rest, b));
  quotient = where(below, quotient - 1.0, quotient);
  Value whole = floor(quotient);
  whole = where(gt(quotient - whole, 0.5), whole + 1.0, whole);
  const Value exact = a / b;
  whole = where(eq(quotient, zero), copy_sign(zero, exact), whole);
  return where(eq(b, zero), exact, whole);
}

Value quotient(Value a, Value b) { return a / b; }

/// Operands as PyTorch divides them: a number is not rounded to a narrow float.
template <Binary f>
Values divide(Context& ctx, DType dtype) {
  const Dims& dims = ctx.out().dims;
  const Value x = broadcast_to(parameter(ctx, 0, dtype), dims);
  const Value y = broadcast_to(parameter(ctx, 1, dtype), dims);
  return {cast(f(x, y), dtype)};
}

Values div(Context& ctx) { return divide<quotient>(ctx, float_common(ctx)); }
Values floor_divide(Context& ctx) { return divide<floor_quotient>(ctx, ctx.common()); }

Values div_mode(Context& ctx) {
  const std::string_view mode = ctx.text_or(2, "");
  if (mode.empty()) return div(ctx);
  if (mode == "floor") return floor_divide(ctx);
  // Narrow floats round before they are cut, as in PyTorch.
  const DType dtype = ctx.common();
  const Value rounded = divide<quotient>(ctx, dtype).front();
  return {is_integral(rounded) ? rounded : trunc(rounded)};
}

Value fmod(Value a, Value b) { return stablehlo::remainder(a, b); }

/// Python's %: the sign of the divisor.
Value modulo(Value a, Value b) {
  const Value rest = stablehlo::remainder(a, b);
  if (!is_signed_int(a.dtype()) && !is_float(a.dtype())) return rest;
  const Value wrong = logical_and(ne(rest, zeros_like(a)), opposite_signs(rest, b));
  return where(wrong, rest + b, rest);
}

// ---- powers

/// Integer power by squaring in the wrapping arithmetic of C. A negative exponent gives 0, but for
/// the bases 1 and -1.
Value integer_pow(Value base, Value exponent) {
  const Value zero = zeros_like(base), one = ones_like(base);
  Value result = one, factor = base, rest = exponent;
  if (is_signed_int(base.dtype())) rest = maximum(exponent, zero);
  const Values found = base.builder().while_loop(
      std::vector<Value>{result, factor, rest},
      [](Builder&, std::span<const Value> v) -> Values {
        return {any(ne(v[2], zeros_like(v[2])))};
      },
      [](Builder& b, std::span<const Value> v) -> Values {
        const Value one = ones_like(v[2]);
        const Value odd = eq(logical_and(v[2], one), one);
        return {where(odd, v[0] * v[1], v[0]), v[1] * v[1],
                b.binary("shift_right_logical", v[2], one)};
      });
  if (!is_signed_int(base.dtype())) return found[0];
  const Value minus_one = -one;
  const Value odd = eq(logical_and(exponent, one), one);
  const Value alternating = where(odd, minus_one, one);
  const Value of_negative =
      where(eq(base, one), one, where(eq(base, minus_one), alternating, zero));
  return where(lt(exponent, zero), of_negative, found[0]);
}

Value power(Value base, Value exponent) {
  if (is_int(base.dtype())) return integer_pow(base, exponent);
  if (is_complex(base.dtype())) {
    // XLA gives NaN for a power of zero.
    const Value zero = zeros_like(base);
    const Value vanishes = gt(base.builder().real(exponent), 0.0);
    return where(logical_and(eq(base, zero), vanishes), zero, pow(base, exponent));
  }
  return pow(base, exponent);
}

/// Exponents that PyTorch's kernel treats apart, with its formulas: a narrow float rounds its
/// square.
Value static_power(Value x, double exponent, DType dtype) {
  const auto square = [&] { return cast(cast(x * x, dtype), x.dtype()); };
  if (exponent == 0.0) return ones_like(x);
  if (exponent == 1.0) return x;
  if (exponent == 2.0) return x * x;
  if (exponent == 3.0) return square() * x;
  if (exponent == 0.5) return sqrt(x);
  if (exponent == -0.5) return rsqrt(x);
  if (exponent == -1.0) return ones_like(x) / x;
  return ones_like(x) / square();
}

Values pow_tensor_scalar(Context& ctx) {
  const DType dtype = ctx.common();
  if (const auto exponent = ctx.special(1)) {
    return {cast(static_power(operand(ctx, 0, dtype), *exponent, dtype), dtype)};
  }
  return binary<power>(ctx);
}

// ---- other functions of two numbers

Value copysign(Value a, Value b) { return copy_sign(a, b); }

/// Without overflow in the squares.
Value hypot(Value a, Value b) {
  const Value x = abs(a), y = abs(b);
  const Value high = maximum(x, y), low = minimum(x, y);
  const Value ratio = low / high;
  const Value length = high * sqrt(ratio * ratio + 1.0);
  const Value zero_or_length = where(eq(high, 0.0), high, length);
  const Value infinite = logical_or(is_inf(x), is_inf(y));
  return where(infinite, INFINITY, zero_or_length);
}

Value next_after(Value a, Value b) { return a.builder().binary("chlo.next_after", a, b); }

/// log(exp(a) + exp(b)) with the greater one taken out.
Value logaddexp_complex(Value a, Value b) {
  Builder& builder = a.builder();
  const Value a_re = builder.real(a), b_re = builder.real(b);
  const Value a_less = lt(a_re, b_re);
  const Value low = where(a_less, a, b), high = where(a_less, b, a);
  const Value low_re = builder.real(low), high_re = builder.real(high);
  const Value same_infinite = logical_and(is_inf(low_re), eq(low_re, high_re));
  const Value infinite = where(lt(low_re, 0.0), low, log(exp(low) + exp(high)));
  const Value nan = constant_like(low_re, NAN);
  const Value has_nan = logical_or(ne(a, a), ne(b, b));
  const Value sum = where(same_infinite, infinite, log1p(exp(low - high)) + high);
  return where(has_nan, builder.complex(nan, nan), sum);
}

Value logaddexp(Value a, Value b) {
  if (is_complex(a.dtype())) return logaddexp_complex(a, b);
  const Value same_infinite = logical_and(is_inf(a), eq(a, b));
  return where(same_infinite, a, maximum(a, b) + log1p(exp(-abs(a - b))));
}

Value logaddexp2(Value a, Value b) {
  const Value same_infinite = logical_and(is_inf(a), eq(a, b));
  const Value ln2 = constant_like(a, std::numbers::ln2);
  const Value small = log1p(exp(-abs(a - b) * ln2)) / ln2;
  return where(same_infinite, a, maximum(a, b) + small);
}

Value heaviside(Value a, Value at_zero) {
  const Value zero = zeros_like(a);
  return where(eq(a, zero), at_zero, cast(lt(zero, a), a.dtype()));
}

Value fmax(Value a, Value b) {
  if (is_integral(a)) return maximum(a, b);
  return where(is_nan(a), b, where(is_nan(b), a, maximum(a, b)));
}

Value fmin(Value a, Value b) {
  if (is_integral(a)) return minimum(a, b);
  return where(is_nan(a), b, where(is_nan(b), a, minimum(a, b)));
}

/// Euclid's algorithm on magnitudes, until every element has a zero.
Value gcd(Value a, Value b) {
  if (is_signed_int(a.dtype())) {
    a = abs(a);
    b = abs(b);
  }
  const Values found = a.builder().while_loop(
      std::vector<Value>{a, b},
      [](Builder&, std::span<const Value> v) -> Values {
        return {any(ne(v[0], zeros_like(v[0])))};
      },
      [](Builder&, std::span<const Value> v) -> Values {
        const Value zero = zeros_like(v[0]);
        const Value done = eq(v[0], zero);
        const Value divisor = where(done, ones_like(v[0]), v[0]);
        return {where(done, zero, stablehlo::remainder(v[1], divisor)), where(done, v[1], v[0])};
      });
  return found[1];
}

Value lcm(Value a, Value b) {
  const Value divisor = gcd(a, b), zero = zeros_like(a);
  const Value none = eq(divisor, zero);
  const Value product = a / where(none, ones_like(a), divisor) * b;
  return where(none, zero, is_signed_int(a.dtype()) ? abs(product) : product);
}

// ---- bits

Value shift_left(Value a, Value b) { return a.builder().binary("shift_left", a, b); }

Value shift_right(Value a, Value b) {
  const bool arithmetic = is_signed_int(a.dtype());
  return a.builder().binary(arithmetic ? "shift_right_arithmetic" : "shift_right_logical", a, b);
}

// ---- truth values of operands of any dtypes

template <Binary f>
Values logical(Context& ctx) {
  return {f(cast(ctx.tensor(0), DType::Pred), cast(ctx.tensor(1), DType::Pred))};
}

/// The in-place operators of Python's << and >> have no functional overload of their name.
constexpr auto left = binary<shift_left>;
constexpr auto right = binary<shift_right>;

}  // namespace

Table binary_table() {
  // A step of 1 deserves a program without the multiplication.
  const std::vector<double> plain{1.0};
  const std::vector<double> powers{0.0, 1.0, 2.0, 3.0, 0.5, -0.5, -1.0, -2.0};
  return {
      {.name = "aten::add.Tensor", .lower = add, .special_values = plain, .promoted_args = {0, 1}},
      {.name = "aten::sub.Tensor", .lower = sub, .special_values = plain, .promoted_args = {0, 1}},
      {.name = "aten::rsub.Tensor",
       .lower = rsub,
       .special_values = plain,
       .promoted_args = {0, 1}},
      {.name = "aten::_add_relu.Tensor",
       .lower = add_relu,
       .special_values = plain,
       .promoted_args = {0, 1}},
      {.name = "aten::mul.Tensor", .lower = mul},
      {.name = "aten::div.Tensor", .lower = div},
      {.name = "aten::div.Tensor_mode", .lower = div_mode},
      {.name = "aten::floor_divide", .lower = floor_divide},
      {.name = "aten::fmod.Tensor", .lower = binary<fmod>},
      {.name = "aten::remainder.Tensor", .lower = binary<modulo>},
      {.name = "aten::remainder.Scalar_Tensor", .lower = binary<modulo>},
      {.name = "aten::pow.Tensor_Tensor", .lower = binary<power>},
      {.name = "aten::pow.Tensor_Scalar", .lower = pow_tensor_scalar, .special_values = powers},
      {.name = "aten::pow.Scalar", .lower = binary<power>},
      {.name = "aten::atan2", .lower = float_binary<stablehlo::atan2>},
      {.name = "aten::copysign.Tensor", .lower = float_binary<copysign>},
      {.name = "aten::hypot", .lower = float_binary<hypot>},
      {.name = "aten::nextafter", .lower = raw_binary<next_after>},
      {.name = "aten::logaddexp", .lower = float_binary<logaddexp>},
      {.name = "aten::logaddexp2", .lower = float_binary<logaddexp2>},
      {.name = "aten::heaviside", .lower = binary<heaviside>},
      {.name = "aten::maximum", .lower = binary<stablehlo::maximum>},
      {.name = "aten::minimum", .lower = binary<stablehlo::minimum>},
      {.name = "aten::fmax", .lower = binary<fmax>},
      {.name = "aten::fmin", .lower = binary<fmin>},
      {.name = "aten::gcd", .lower = binary<gcd>},
      {.name = "aten::lcm", .lower = binary<lcm>},
      {.name = "aten::bitwise_and.Tensor", .lower = binary<stablehlo::logical_and>},
      {.name = "aten::bitwise_or.Tensor", .lower = binary<stablehlo::logical_or>},
      {.name = "aten::bitwise_xor.Tensor", .lower = binary<stablehlo::logical_xor>},
      {.name = "aten::bitwise_left_shift.Tensor", .lower = left},
      {.name = "aten::bitwise_right_shift.Tensor", .lower = right},
      {.name = "aten::__lshift__.Tensor", .lower = left},
      {.name = "aten::__lshift__.Scalar", .lower = left},
      {.name = "aten::__ilshift__.Tensor", .lower = left},
      {.name = "aten::__ilshift__.Scalar", .lower = left},
      {.name = "aten::__rshift__.Tensor", .lower = right},
      {.name = "aten::__rshift__.Scalar", .lower = right},
      {.name = "aten::__irshift__.Tensor", .lower = right},
      {.name = "aten::__irshift__.Scalar", .lower = right},
      {.name = "aten::logical_and", .lower = logical<stablehlo::logical_and>},
      {.name = "aten::logical_or", .lower = logical<stablehlo::logical_or>},
      {.name = "aten::logical_xor", .lower = logical<stablehlo::logical_xor>},
      {.name = "aten::eq.Tensor", .lower = raw_binary<stablehlo::eq>},
      {.name = "aten::eq.Scalar", .lower = raw_binary<stablehlo::eq>},
      {.name = "aten::ne.Tensor", .lower = raw_binary<stablehlo::ne>},
      {.name = "aten::ne.Scalar", .lower = raw_binary<stablehlo::ne>},
      {.name = "aten::lt.Tensor", .lower = raw_binary<stablehlo::lt>},
      {.name = "aten::lt.Scalar", .lower = raw_binary<stablehlo::lt>},
      {.name = "aten::le.Tensor", .lower = raw_binary<stablehlo::le>},
      {.name = "aten::le.Scalar", .lower = raw_binary<stablehlo::le>},
      {.name = "aten::gt.Tensor", .lower = raw_binary<stablehlo::gt>},
      {.name = "aten::gt.Scalar", .lower = raw_binary<stablehlo::gt>},
      {.name = "aten::ge.Tensor", .lower = raw_binary<stablehlo::ge>},
      {.name = "aten::ge.Scalar", .lower = raw_binary<stablehlo::ge>},
  };
}

}  // namespace torch_tpu::lowering
