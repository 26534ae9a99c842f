// Derivatives of the activation functions. Argument 0 is the gradient, but where the schema
// differs.
#include <cmath>
#include <numbers>

#include "lowering/families.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {

namespace {

using stablehlo::is_complex;

/// The gradient and the tensor at which the function was computed (or its result).
struct Backward {
  explicit Backward(Context& ctx, size_t x_position = 1)
      : ctx(ctx),
        dtype(ctx.common()),
        grad(operand(ctx, 0, dtype)),
        x(operand(ctx, x_position, dtype)) {}
  Value number(size_t i) const { return parameter(ctx, i, dtype); }
  Values result(Value v) const { return {cast(v, dtype)}; }

  Context& ctx;
  DType dtype;
  Value grad, x;
};

template <Binary f>
Values backward(Context& ctx) {
  const Backward in(ctx);
  return in.result(f(in.grad, in.x));
}

Value conj(Value x) {
  if (!is_complex(x.dtype())) return x;
  return x.builder().complex(x.builder().real(x), -x.builder().imag(x));
}

/// From the result y of the function.
Value sigmoid_backward(Value grad, Value y) { return grad * conj((1.0 - y) * y); }
Value tanh_backward(Value grad, Value y) { return grad * conj(1.0 - y * y); }

Values threshold_backward(Context& ctx) {
  const Backward in(ctx);
  return in.result(where(le(in.x, in.number(2)), 0.0, in.grad));
}

Values leaky_relu_backward(Context& ctx) {
  const Backward in(ctx);
  return in.result(where(gt(in.x, 0.0), in.grad, in.grad * in.number(2)));
}

Values prelu_backward(Context& ctx) {
  const Backward in(ctx);
  const Value weight = operand(ctx, 2, in.dtype);
  const Value positive = gt(in.x, 0.0);
  return {cast(where(positive, in.grad, weight * in.grad), in.dtype),
          cast(where(positive, 0.0, in.x * in.grad), in.dtype)};
}

Values hardtanh_backward(Context& ctx) {
  const Backward in(ctx);
  const Value outside = logical_or(le(in.x, in.number(2)), ge(in.x, in.number(3)));
  return in.result(where(outside, 0.0, in.grad));
}

Value hardsigmoid_backward(Value grad, Value x) {
  const Value inside = logical_and(gt(x, -3.0), lt(x, 3.0));
  return where(inside, grad / 6.0, 0.0);
}

Value hardswish_backward(Value grad, Value x) {
  const Value middle = grad * ((2.0 * x + 3.0) / 6.0);
  return where(le(x, -3.0), 0.0, where(lt(x, 3.0), middle, grad));
}

/// Of hardshrink and softshrink.
Values shrink_backward(Context& ctx) {
  const Backward in(ctx);
  const Value lambda = in.number(2);
  const Value inside = logical_and(ge(in.x, -lambda), le(in.x, lambda));
  return in.result(where(inside, 0.0, in.grad));
}

Values elu_backward(Context& ctx) {
  const Backward in(ctx, 5);
  const Value alpha = in.number(1), scale = in.number(2), input_scale = in.number(3);
  const Value coefficient = alpha * scale;
  const Value slope = ctx.flag(4) ? input_scale * (in.x + coefficient)
                                  : input_scale * coefficient * exp(in.x * input_scale);
  return in.result(where(le(in.x, 0.0), in.grad * slope, in.grad * scale));
}

Values gelu_backward(Context& ctx) {
  const Backward in(ctx);
  const Value x = in.x;
  if (ctx.text_or(2, "none") == "tanh") {
    const double beta = 2.0 / std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
    const double kappa = 0.044715;
    const Value inner = beta * (x + kappa * (x * x * x));
    const Value t = tanh(inner);
    const Value left = 0.5 * (1.0 + t);
    const Value inner_slope = beta * (1.0 + 3.0 * kappa * (x * x));
    return in.result(in.grad * (left + 0.5 * x * (1.0 - t * t) * inner_slope));
  }
  const Value cdf = 0.5 * (1.0 + exact_erf(x * (1.0 / std::numbers::sqrt2)));
  const double norm = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  return in.result(in.grad * (cdf + x * (exp(x * x * -0.5) * norm)));
}

Value silu_backward(Value grad, Value x) {
  const Value s = sigmoid(x), one = ones_like(x);
  return grad * s * (one + x * (one - s));
}

Value mish_backward(Value grad, Value x) {
  const Value t = tanh(log1p(exp(x)));
  return grad * (t + x * sigmoid(x) * (1.0 - t * t));
}

Values softplus_backward(Context& ctx) {
  const Backward in(ctx);
  const Value scaled = in.x * in.number(2);
  return in.result(where(gt(scaled, in.number(3)), in.grad, in.grad * sigmoid(scaled)));
}

/// The derivative of log(sigmoid(x)) is sigmoid(-x); the buffer of the forward is not needed.
Value log_sigmoid_backward(Value grad, Value x) { return grad * sigmoid(-x); }

Values glu_backward(Context& ctx) {
  const Backward in(ctx);
  const int64_t dim = stablehlo::wrap_dim(ctx.integer(2), in.x.rank());
  const int64_t half = in.x.dim(dim) / 2;
  const Value value = slice_dim(in.x, dim, 0, half);
  const Value s = sigmoid(slice_dim(in.x, dim, half, 2 * half));
  const Values parts{in.grad * s, in.grad * value * s * (1.0 - s)};
  return in.result(ctx.b.concatenate(parts, dim));
}

/// The derivative of glu_backward along given directions.
Values glu_backward_jvp(Context& ctx) {
  const DType dtype = ctx.common();
  const Value grad_glu = operand(ctx, 1, dtype), x = operand(ctx, 2, dtype);
  const Value d_grad = operand(ctx, 3, dtype), dx = operand(ctx, 4, dtype);
  const int64_t dim = stablehlo::wrap_dim(ctx.integer(5), x.rank());
  const int64_t half = x.dim(dim) / 2;
  const Value value = slice_dim(x, dim, 0, half), d_value = slice_dim(dx, dim, 0, half);
  const Value d_gate = slice_dim(dx, dim, half, 2 * half);
  const Value s = sigmoid(slice_dim(x, dim, half, 2 * half));
  const Value ds = s * (1.0 - s) * d_gate;
  const Value d_first = d_grad * s + grad_glu * ds;
  const Value slope = s * (1.0 - s);
  const Value d_slope = ds * (1.0 - 2.0 * s);
  const Value d_second = d_grad * value * slope + grad_glu * (d_value * slope + value * d_slope);
  const Values parts{d_first, d_second};
  return {cast(ctx.b.concatenate(parts, dim), dtype)};
}

/// Outside [eps, 1 - eps] zero; without eps NaN outside [0, 1].
Values logit_backward(Context& ctx) {
  const Backward in(ctx);
  const Value x = in.x, one = ones_like(x);
  const Value edge = logical_or(eq(x, 0.0), eq(x, 1.0));
  const Value slope = where(edge, in.grad * INFINITY, in.grad / (x * (one - x)));
  const auto bounded = [&](Value low, Value high, double outside) {
    return where(logical_or(lt(x, low), gt(x, high)), outside, slope);
  };
  const Value unbounded = bounded(zeros_like(x), one, NAN);
  if (!ctx.has(2)) return in.result(unbounded);
  const Value eps = operand(ctx, 2, in.dtype);
  const Value high = cast(cast(1.0 - eps, in.dtype), eps.dtype());
  return in.result(where(lt(eps, 0.0), unbounded, bounded(eps, high, 0.0)));
}

}  // namespace

Table activation_backward_table() {
  return {
      {.name = "aten::sigmoid_backward", .lower = backward<sigmoid_backward>},
      {.name = "aten::tanh_backward", .lower = backward<tanh_backward>},
      {.name = "aten::threshold_backward", .lower = threshold_backward, .promoted_args = {0, 1}},
      {.name = "aten::leaky_relu_backward", .lower = leaky_relu_backward, .promoted_args = {0, 1}},
      {.name = "aten::_prelu_kernel_backward", .lower = prelu_backward},
      {.name = "aten::hardtanh_backward", .lower = hardtanh_backward, .promoted_args = {0, 1}},
      {.name = "aten::hardsigmoid_backward", .lower = backward<hardsigmoid_backward>},
      {.name = "aten::hardswish_backward", .lower = backward<hardswish_backward>},
      {.name = "aten::hardshrink_backward", .lower = shrink_backward, .promoted_args = {0, 1}},
      {.name = "aten::softshrink_backward", .lower = shrink_backward, .promoted_args = {0, 1}},
      {.name = "aten::elu_backward", .lower = elu_backward, .promoted_args = {0, 5}},
      {.name = "aten::gelu_backward", .lower = gelu_backward},
      {.name = "aten::silu_backward", .lower = backward<silu_backward>},
      {.name = "aten::mish_backward", .lower = backward<mish_backward>},
      {.name = "aten::softplus_backward", .lower = softplus_backward, .promoted_args = {0, 1}},
      {.name = "aten::log_sigmoid_backward", .lower = backward<log_sigmoid_backward>},
      {.name = "aten::glu_backward", .lower = glu_backward},
      {.name = "aten::glu_backward_jvp", .lower = glu_backward_jvp},
      {.name = "aten::logit_backward", .lower = logit_backward, .promoted_args = {0, 1}},
  };
}

}  // namespace torch_tpu::lowering
