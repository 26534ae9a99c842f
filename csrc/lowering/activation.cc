// Activation functions.
#include <cmath>
#include <numbers>

#include "lowering/families.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {

namespace {

/// The operands of an activation: its tensors are of one dtype and its numbers take no part in the
/// promotion.
struct Operands {
  explicit Operands(Context& ctx, size_t first = 0)
      : ctx(ctx), dtype(ctx.common()), x(operand(ctx, first, dtype)) {}
  Value number(size_t i) const { return parameter(ctx, i, dtype); }
  Value tensor(size_t i) const { return operand(ctx, i, dtype); }
  Values result(Value v) const { return {cast(v, dtype)}; }

  Context& ctx;
  DType dtype;
  Value x;
};

// ---- piecewise linear

/// Keeps -0 and NaN.
Values relu(Context& ctx) {
  const Operands in(ctx);
  const Value zero = zeros_like(in.x);
  return in.result(where(lt(in.x, zero), zero, in.x));
}

/// NaN is not below the threshold.
Values threshold(Context& ctx) {
  const Operands in(ctx);
  return in.result(where(le(in.x, in.number(1)), in.number(2), in.x));
}

Values leaky_relu(Context& ctx) {
  const Operands in(ctx);
  return in.result(where(gt(in.x, 0.0), in.x, in.x * in.number(1)));
}

Values prelu(Context& ctx) {
  const Operands in(ctx);
  return in.result(where(gt(in.x, 0.0), in.x, in.x * in.tensor(1)));
}

Values hardtanh(Context& ctx) {
  const Operands in(ctx);
  return in.result(minimum(maximum(in.x, in.number(1)), in.number(2)));
}

/// x + 3, in [0, 6].
Value hard_ramp(Value x) {
  const Value shifted = maximum(x + 3.0, zeros_like(x));
  return minimum(shifted, constant_like(x, 6.0));
}

Value hardsigmoid(Value x) { return hard_ramp(x) / 6.0; }
Value hardswish(Value x) { return x * hard_ramp(x) / 6.0; }

Value inside(Value x, Value lambda) { return logical_and(ge(x, -lambda), le(x, lambda)); }

Values hardshrink(Context& ctx) {
  const Operands in(ctx);
  return in.result(where(inside(in.x, in.number(1)), 0.0, in.x));
}

Values softshrink(Context& ctx) {
  const Operands in(ctx);
  const Value lambda = in.number(1);
  // Zero with the sign of x, and NaN for NaN.
  const Value rest = where(lt(in.x, -lambda), in.x + lambda, in.x * 0.0);
  return in.result(where(gt(in.x, lambda), in.x - lambda, rest));
}

// ---- smooth

Values elu(Context& ctx) {
  const Operands in(ctx);
  const Value alpha = in.number(1), scale = in.number(2), input_scale = in.number(3);
  const Value negative = expm1(in.x * input_scale) * (alpha * scale);
  return in.result(where(lt(in.x, 0.0), negative, in.x * scale));
}

constexpr double kGeluBeta = 2.0 / std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kGeluKappa = 0.044715;

Values gelu(Context& ctx) {
  const Operands in(ctx);
  const Value x = in.x;
  if (ctx.text_or(1, "none") == "tanh") {
    const Value inner = kGeluBeta * (x + kGeluKappa * (x * x * x));
    return in.result(0.5 * x * (1.0 + tanh(inner)));
  }
  return in.result(x * 0.5 * (1.0 + exact_erf(x * (1.0 / std::numbers::sqrt2))));
}

Value silu(Value x) {
  const Value one = ones_like(x);
  return x / (one + exp(-x));
}

/// log(1 + exp(x)) without care for large x: its tanh is 1 anyway.
Value naive_softplus(Value x) { return log1p(exp(x)); }

Value mish(Value x) { return x * tanh(naive_softplus(x)); }

Values softplus(Context& ctx) {
  const Operands in(ctx);
  const Value beta = in.number(1);
  const Value scaled = in.x * beta;
  return in.result(where(gt(scaled, in.number(2)), in.x, naive_softplus(scaled) / beta));
}

/// The second result is exp(-|x|), which the backward of PyTorch's CPU kernel expects.
Values log_sigmoid_forward(Context& ctx) {
  const Operands in(ctx);
  const Value buffer = exp(-abs(in.x));
  const Value output = minimum(in.x, zeros_like(in.x)) - log1p(buffer);
  const Value kept = ctx.out(1).dims == buffer.dims() ? buffer : ctx.b.zeros(ctx.out(1));
  return {cast(output, in.dtype), cast(kept, in.dtype)};
}

// ---- gated

struct Halves {
  Value first, second;
};

Halves halves(Value x, int64_t dim) {
  dim = stablehlo::wrap_dim(dim, x.rank());
  const int64_t half = x.dim(dim) / 2;
  return {slice_dim(x, dim, 0, half), slice_dim(x, dim, half, 2 * half)};
}

Values glu(Context& ctx) {
  const Operands in(ctx);
  const auto [value, gate] = halves(in.x, ctx.integer_or(1, -1));
  return in.result(value * sigmoid(gate));
}

Values glu_jvp(Context& ctx) {
  const Operands in(ctx);
  const int64_t dim = ctx.integer(3);
  const Value gate = halves(in.tensor(1), dim).second;
  const auto [d_value, d_gate] = halves(in.tensor(2), dim);
  const Value s = sigmoid(gate);
  return in.result(in.x * (d_gate - s * d_gate) + s * d_value);
}

/// eps < 0 stands for None: no clamping. PyTorch's kernel works in the dtype of the tensor, so that
/// narrow floats round at each step.
Values logit(Context& ctx) {
  const DType dtype = float_common(ctx);
  const auto narrow = [&](Value v) { return cast(cast(v, dtype), v.dtype()); };
  Value x = operand(ctx, 0, dtype);
  if (ctx.has(1)) {
    const Value eps = operand(ctx, 1, dtype);
    const Value high = narrow(1.0 - eps);
    const Value clamped = where(lt(x, eps), eps, where(gt(x, high), high, x));
    x = where(lt(eps, 0.0), x, clamped);
  }
  return {cast(log(narrow(x / narrow(1.0 - x))), dtype)};
}

}  // namespace

Table activation_table() {
  return {
      {.name = "aten::relu", .lower = relu},
      {.name = "aten::threshold", .lower = threshold, .promoted_args = {0}},
      {.name = "aten::leaky_relu", .lower = leaky_relu, .promoted_args = {0}},
      {.name = "aten::_prelu_kernel", .lower = prelu},
      {.name = "aten::hardtanh", .lower = hardtanh, .promoted_args = {0}},
      {.name = "aten::hardsigmoid", .lower = unary<hardsigmoid>},
      {.name = "aten::hardswish", .lower = unary<hardswish>},
      {.name = "aten::hardshrink", .lower = hardshrink, .promoted_args = {0}},
      {.name = "aten::softshrink", .lower = softshrink, .promoted_args = {0}},
      {.name = "aten::elu", .lower = elu, .promoted_args = {0}},
      {.name = "aten::gelu", .lower = gelu},
      {.name = "aten::silu", .lower = unary<silu>},
      {.name = "aten::mish", .lower = unary<mish>},
      {.name = "aten::softplus", .lower = softplus, .promoted_args = {0}},
      {.name = "aten::log_sigmoid_forward", .lower = log_sigmoid_forward},
      {.name = "aten::glu", .lower = glu},
      {.name = "aten::glu_jvp", .lower = glu_jvp},
      {.name = "aten::logit", .lower = logit, .promoted_args = {0}},
  };
}

}  // namespace torch_tpu::lowering
