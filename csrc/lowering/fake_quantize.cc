// Quantization that is only pretended: values are rounded to the steps of an integer range and stay
// floats. Scales and zero points are one number, or one for each index of a dimension.
#include <limits>

#include "lowering/families.h"
#include "lowering/pointwise.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {
namespace {

/// What becomes of a zero point: cut to an integer, left as it is if it is a float, or the nearest
/// integer of the range; of two the even or the greater one.
enum class ZeroPoint : uint8_t { Cut, AsGiven, Nearest, HalfUp };

/// Positions of the arguments; an axis follows the zero point if there is one for each channel.
struct Arguments {
  size_t self, scale, least;
  bool per_channel;
  ZeroPoint zero_point;
  bool rounds_sum = false;  // the zero point is part of what is rounded, not added afterwards
};

struct Quantized {
  Value x;                // widened
  Value scale, inverse;   // of F32 precision, whatever x is
  Value zero_point;       // all broadcast to x
  Value least, greatest;  // the range, of the dtype of x
  Value step;             // what x is rounded to, not yet in the range
  Dims others;            // the dimensions over which a parameter is the same

  Value inside() const { return logical_and(ge(step, least), le(step, greatest)); }
  Value bounded(Value value) const { return minimum(maximum(value, least), greatest); }
  Value restored() const { return (bounded(step) - zero_point) * scale; }
};

Quantized quantized(const Context& ctx, const Arguments& at) {
  Quantized q;
  q.x = widen(ctx.tensor(at.self));
  const DType dtype = q.x.dtype();
  const Dims& dims = q.x.dims();
  const int64_t axis =
      at.per_channel ? stablehlo::wrap_dim(ctx.integer(at.scale + 2), q.x.rank()) : -1;
  q.others = at.per_channel ? other_dims(q.x, axis) : stablehlo::all_dims(q.x);
  const auto spread = [&](Value value) {
    value = cast(value, dtype);
    return at.per_channel ? along(value, axis, dims) : broadcast_to(reshape(value, {}), dims);
  };
  const auto bound = [&](size_t i) { return ctx.b.constant_int(dtype, ctx.integer(i), dims); };
  q.least = bound(at.least);
  q.greatest = bound(at.least + 1);
  const Value scale = ctx.scalar(at.scale, DType::F32);
  q.scale = spread(scale);
  q.inverse = spread(1.0 / scale);
  const bool whole = at.zero_point == ZeroPoint::Cut;
  q.zero_point = spread(ctx.scalar(at.scale + 1, whole ? DType::S64 : DType::F32));
  if (at.zero_point == ZeroPoint::Nearest) q.zero_point = q.bounded(round_even(q.zero_point));
  if (at.zero_point == ZeroPoint::HalfUp) q.zero_point = trunc(q.bounded(q.zero_point + 0.5));
  const Value scaled = q.x * q.inverse;
  q.step = at.rounds_sum ? round_even(scaled + q.zero_point) : round_even(scaled) + q.zero_point;
  q.step = where(is_nan(q.step), -std::numeric_limits<double>::infinity(), q.step);
  return q;
}

/// Arguments: self, scale, zero_point, quant_min, quant_max. Results: values, and where they are
/// inside of the range.
Values per_tensor(Context& ctx) {
  const Quantized q = quantized(ctx, {0, 1, 3, false, ZeroPoint::Cut});
  return {q.restored(), q.inside()};
}

/// Arguments: self, scale, zero_point, fake_quant_enabled, quant_min, quant_max.
Values per_tensor_if_enabled(Context& ctx) {
  const Quantized q = quantized(ctx, {0, 1, 4, false, ZeroPoint::Cut});
  const Value enabled = broadcast_to(reshape(ne(ctx.scalar(3, DType::S64), 0.0), {}), q.x.dims());
  return {where(enabled, q.restored(), q.x), logical_or(logical_not(enabled), q.inside())};
}

/// Arguments: self, scale, zero_point, axis, quant_min, quant_max.
Values per_channel(Context& ctx) {
  const bool whole = !is_float(ctx.tensor(2).dtype());
  const Quantized q =
      quantized(ctx, {0, 1, 4, true, whole ? ZeroPoint::Cut : ZeroPoint::AsGiven, !whole});
  return {q.restored(), q.inside()};
}

/// Arguments: self, scale, zero_point[, axis], quant_min, quant_max, grad_factor.
template <bool per_channel>
Values learnable(Context& ctx) {
  return {
      quantized(ctx, {0, 1, per_channel ? 4U : 3U, per_channel, ZeroPoint::Nearest}).restored()};
}

/// Arguments: grad, self, scale, zero_point[, axis], quant_min, quant_max, grad_factor.
template <bool per_channel>
Values learnable_backward(Context& ctx) {
  const size_t bounds = per_channel ? 5 : 4;
  const Quantized q = quantized(
      ctx, {1, 2, bounds, per_channel, per_channel ? ZeroPoint::Nearest : ZeroPoint::HalfUp,
            /*rounds_sum=*/true});
  const Value grad = cast(ctx.tensor(0), q.x.dtype()), inside = q.inside();
  const Value edge = where(lt(q.step, q.least), q.least, q.greatest) - q.zero_point;
  const Value by_scale = where(inside, (q.restored() - q.x) * q.inverse, edge);
  const Value by_zero_point = where(inside, 0.0, -q.scale);
  const Value weighted = grad * broadcast_to(ctx.scalar(bounds + 2, q.x.dtype()), q.x.dims());
  return {where(inside, grad, 0.0), shaped(ctx, sum(weighted * by_scale, q.others), 1),
          shaped(ctx, sum(weighted * by_zero_point, q.others), 2)};
}

}  // namespace

Table fake_quantize_table() {
  return {
      {"torch_tpu::fake_quantize", per_tensor},
      {"aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", per_tensor_if_enabled},
      {"aten::fake_quantize_per_channel_affine_cachemask", per_channel},
      {"aten::_fake_quantize_learnable_per_tensor_affine", learnable<false>},
      {"aten::_fake_quantize_learnable_per_channel_affine", learnable<true>},
      {"aten::_fake_quantize_learnable_per_tensor_affine_backward", learnable_backward<false>},
      {"aten::_fake_quantize_learnable_per_channel_affine_backward", learnable_backward<true>},
  };
}

}  // namespace torch_tpu::lowering
