// Layer, group, RMS and weight normalization, and their gradients.
//
// An argument output_mask says which results are wanted; the others are null.
#include "lowering/families.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {

namespace {

/// The last dimensions, as many as argument i (a shape) has.
Dims normalized_dims(const Context& ctx, size_t i, int64_t rank) {
  Dims out;
  for (int64_t d = rank - static_cast<int64_t>(ctx.ints(i).size()); d < rank; ++d) out.push_back(d);
  return out;
}

/// The dimensions before those.
Dims outer_dims(const Context& ctx, size_t i, int64_t rank) {
  Dims out;
  for (int64_t d = 0; d < rank - static_cast<int64_t>(ctx.ints(i).size()); ++d) out.push_back(d);
  return out;
}

/// x with an optional factor and an optional term.
Value affine(Value x, Value weight, Value bias) {
  if (weight) x = x * weight;
  return bias ? x + bias : x;
}

/// Argument i in this dtype; null for None.
Value optional_tensor(const Context& ctx, size_t i, DType dtype) {
  return ctx.has(i) ? cast(ctx.tensor(i), dtype) : Value();
}

Value inverse_deviation(Value squares, int64_t size, Value eps) {
  return stablehlo::rsqrt(squares / static_cast<double>(size) + eps);
}

/// Gradient of (x - mean) * rstd, where normalized = (x - mean) * rstd and grad is that of the
/// result.
Value normalized_gradient(Value grad, Value normalized, Value rstd, const Dims& dims) {
  const Value along_mean = mean(grad, dims, true);
  const Value along_x = mean(grad * normalized, dims, true);
  return (grad - along_mean - normalized * along_x) * rstd;
}

/// (input, normalized_shape, weight, bias, eps) -> (output, mean, rstd).
Values layer_norm(Context& ctx) {
  const Value x = widen(ctx.tensor(0));
  const Dims dims = normalized_dims(ctx, 1, x.rank());
  const Moments m = moments(x, dims);
  const Value rstd = inverse_deviation(m.squares, count(x, dims), ctx.scalar(4, x.dtype()));
  const Value out = affine((x - m.mean) * rstd, optional_tensor(ctx, 2, x.dtype()),
                           optional_tensor(ctx, 3, x.dtype()));
  return {out, m.mean, rstd};
}

/// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask).
Values layer_norm_backward(Context& ctx) {
  const Value x = widen(ctx.tensor(1));
  const Value grad = cast(ctx.tensor(0), x.dtype());
  const Value rstd = cast(ctx.tensor(4), x.dtype());
  const Value normalized = (x - cast(ctx.tensor(3), x.dtype())) * rstd;
  const Dims dims = normalized_dims(ctx, 2, x.rank()), outer = outer_dims(ctx, 2, x.rank());
  const std::vector<bool>& wanted = ctx.flags(7);
  Values out(3);
  if (wanted[0]) {
    const Value scaled = affine(grad, optional_tensor(ctx, 5, x.dtype()), {});
    out[0] = normalized_gradient(scaled, normalized, rstd, dims);
  }
  if (wanted[1] && ctx.has(5)) out[1] = sum(grad * normalized, outer);
  if (wanted[2] && ctx.has(6)) out[2] = sum(grad, outer);
  return out;
}

/// (input, normalized_shape, weight, eps) -> (output, rstd).
Values rms_norm(Context& ctx) {
  const Value x = widen(ctx.tensor(0));
  const Dims dims = normalized_dims(ctx, 1, x.rank());
  const bool half = ctx.tensor(0).dtype() == DType::F16;
  const double least = x.dtype() == DType::F64                ? 0x1p-52
                       : ctx.tensor(0).dtype() == DType::BF16 ? 0x1p-7
                       : half                                 ? 0x1p-10
                                                              : 0x1p-23;
  const Value rstd = stablehlo::rsqrt(mean(x * x, dims, true) + ctx.scalar_or(3, x.dtype(), least));
  return {affine(x * rstd, optional_tensor(ctx, 2, x.dtype()), {}), rstd};
}

/// (grad_out, input, normalized_shape, rstd, weight, output_mask).
Values rms_norm_backward(Context& ctx) {
  const Value x = widen(ctx.tensor(1));
  const Value grad = cast(ctx.tensor(0), x.dtype());
  const Value rstd = cast(ctx.tensor(3), x.dtype());
  const Value normalized = x * rstd;
  const Dims dims = normalized_dims(ctx, 2, x.rank());
  const std::vector<bool>& wanted = ctx.flags(5);
  Values out(2);
  if (wanted[0]) {
    const Value scaled = affine(grad, optional_tensor(ctx, 4, x.dtype()), {});
    out[0] = (scaled - normalized * mean(scaled * normalized, dims, true)) * rstd;
  }
  if (wanted[1] && ctx.has(4)) out[1] = sum(grad * normalized, outer_dims(ctx, 2, x.rank()));
  return out;
}

/// Sizes of a group normalization, whose arguments N, C, HxW, group start at position `at`.
struct Groups {
  int64_t batch, channels, positions, groups;
  Groups(const Context& ctx, size_t at)
      : batch(ctx.integer(at)),
        channels(ctx.integer(at + 1)),
        positions(ctx.integer(at + 2)),
        groups(ctx.integer(at + 3)) {}
  Dims by_channel() const { return {batch, channels, positions}; }
  Dims by_group() const { return {batch, groups, channels / groups, positions}; }
  Dims statistics() const { return {batch, groups, 1, 1}; }
  /// A number for each channel, over [batch, groups, channels of a group, positions].
  Value channel_values(Value x) const {
    return stablehlo::reshape(x, {1, groups, channels / groups, 1});
  }
};

/// (input, weight, bias, N, C, HxW, group, eps) -> (output, mean, rstd).
Values group_norm(Context& ctx) {
  const Groups g(ctx, 3);
  const Value x = stablehlo::reshape(widen(ctx.tensor(0)), g.by_group());
  const Moments m = moments(x, {2, 3});
  const Value rstd = inverse_deviation(m.squares, count(x, {2, 3}), ctx.scalar(7, x.dtype()));
  Value weight = optional_tensor(ctx, 1, x.dtype()), bias = optional_tensor(ctx, 2, x.dtype());
  if (weight) weight = g.channel_values(weight);
  if (bias) bias = g.channel_values(bias);
  const Value out = affine((x - m.mean) * rstd, weight, bias);
  return {shaped(ctx, out, 0), shaped(ctx, m.mean, 1), shaped(ctx, rstd, 2)};
}

/// (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask).
Values group_norm_backward(Context& ctx) {
  const Groups g(ctx, 5);
  const Value x = stablehlo::reshape(widen(ctx.tensor(1)), g.by_group());
  const DType dtype = x.dtype();
  const Value grad = stablehlo::reshape(cast(ctx.tensor(0), dtype), g.by_group());
  const Value average = stablehlo::reshape(cast(ctx.tensor(2), dtype), g.statistics());
  const Value rstd = stablehlo::reshape(cast(ctx.tensor(3), dtype), g.statistics());
  const Value normalized = (x - average) * rstd;
  const std::vector<bool>& wanted = ctx.flags(9);
  Values out(3);
  if (wanted[0]) {
    const Value weight = optional_tensor(ctx, 4, dtype);
    const Value scaled = weight ? grad * g.channel_values(weight) : grad;
    out[0] = shaped(ctx, normalized_gradient(scaled, normalized, rstd, {2, 3}), 0);
  }
  const auto by_channel = [&](Value v) {
    return sum(stablehlo::reshape(v, g.by_channel()), {0, 2});
  };
  if (wanted[1]) out[1] = by_channel(grad * normalized);
  if (wanted[2]) out[2] = by_channel(grad);
  return out;
}

/// (v, g, dim) -> (v * g / norm, norm), the norm being over all dimensions but dim.
Values weight_norm(Context& ctx) {
  const Value v = widen(ctx.tensor(0));
  const Dims dims = other_dims(v, stablehlo::wrap_dim(ctx.integer(2), v.rank()));
  const Value norm = vector_norm(v, 2.0, dims, true);
  return {v * (cast(ctx.tensor(1), v.dtype()) / norm), norm};
}

/// (grad_w, saved_v, saved_g, saved_norms, dim) -> (grad_v, grad_g).
Values weight_norm_backward(Context& ctx) {
  const Value v = widen(ctx.tensor(1));
  const Value grad = cast(ctx.tensor(0), v.dtype());
  const Value g = cast(ctx.tensor(2), v.dtype()), norm = cast(ctx.tensor(3), v.dtype());
  const Dims dims = other_dims(v, stablehlo::wrap_dim(ctx.integer(4), v.rank()));
  const Value along_v = sum(grad * v, dims, true) / norm;
  return {(g / norm) * (grad - v * (along_v / norm)), along_v};
}

}  // namespace

Table normalization_table() {
  return {
      {"aten::native_layer_norm", layer_norm},
      {"aten::native_layer_norm_backward", layer_norm_backward},
      {"aten::_fused_rms_norm", rms_norm},
      {"aten::_fused_rms_norm_backward", rms_norm_backward},
      {"aten::native_group_norm", group_norm},
      {"aten::native_group_norm_backward", group_norm_backward},
      {"aten::_weight_norm_interface", weight_norm},
      {"aten::_weight_norm_interface_backward", weight_norm_backward},
  };
}

}  // namespace torch_tpu::lowering
