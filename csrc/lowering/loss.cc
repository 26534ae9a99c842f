// Pointwise losses with their reductions. (nll_loss has a file of its own.)
#include <cmath>

#include "lowering/families.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {

namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

/// The losses of the elements, reduced over everything; the mean of nothing is NaN.
Values reduced(DType dtype, Value losses, int64_t reduction) {
  if (reduction == kNone) return {cast(losses, dtype)};
  Value sum = reduce_sum(losses, all_dims(losses));
  if (reduction == kMean) sum = sum / static_cast<double>(losses.numel());
  return {cast(sum, dtype)};
}

/// The gradient of the reduction at each element, to be multiplied by that of the element's loss.
Value spread(Value grad, Value x, int64_t reduction) {
  const Value each = broadcast_to(grad, x.dims());
  return reduction == kMean ? each / static_cast<double>(x.numel()) : each;
}

/// Operands (input, target) broadcast against each other.
struct Pair {
  Pair(Context& ctx, size_t first) : dtype(ctx.common()) {
    const Value a = operand(ctx, first, dtype), b = operand(ctx, first + 1, dtype);
    const Dims dims = stablehlo::broadcast_shapes(a.dims(), b.dims());
    input = broadcast_to(a, dims);
    target = broadcast_to(b, dims);
  }
  DType dtype;
  Value input, target;
};

// ---- distances

Values mse_loss(Context& ctx) {
  const Pair in(ctx, 0);
  const Value d = in.input - in.target;
  return reduced(in.dtype, d * d, ctx.integer(2));
}

Values mse_loss_backward(Context& ctx) {
  const Pair in(ctx, 1);
  const Value grad = spread(operand(ctx, 0, in.dtype), in.input, ctx.integer(3));
  return {cast(2.0 * (in.input - in.target) * grad, in.dtype)};
}

Values smooth_l1_loss(Context& ctx) {
  const Pair in(ctx, 0);
  const Value beta = parameter(ctx, 3, in.dtype);
  const Value d = abs(in.input - in.target);
  const Value losses = where(lt(d, beta), 0.5 * d * d / beta, d - 0.5 * beta);
  return reduced(in.dtype, losses, ctx.integer(2));
}

/// -1 below -beta, 1 above beta, and `middle` between.
Value clipped_slope(Value d, Value beta, Value middle) {
  const Value one = ones_like(d);
  return where(le(d, -beta), -one, where(ge(d, beta), one, middle));
}

Values smooth_l1_loss_backward(Context& ctx) {
  const Pair in(ctx, 1);
  const Value beta = parameter(ctx, 4, in.dtype);
  const Value d = in.input - in.target;
  const Value grad = spread(operand(ctx, 0, in.dtype), d, ctx.integer(3));
  return {cast(clipped_slope(d, beta, d / beta) * grad, in.dtype)};
}

Values huber_loss(Context& ctx) {
  const Pair in(ctx, 0);
  const Value delta = parameter(ctx, 3, in.dtype);
  const Value d = abs(in.input - in.target);
  const Value losses = where(le(d, delta), 0.5 * d * d, delta * (d - 0.5 * delta));
  return reduced(in.dtype, losses, ctx.integer(2));
}

Values huber_loss_backward(Context& ctx) {
  const Pair in(ctx, 1);
  const Value delta = parameter(ctx, 4, in.dtype);
  const Value d = in.input - in.target;
  const Value grad = spread(operand(ctx, 0, in.dtype), d, ctx.integer(3));
  const Value slope = where(le(d, -delta), -delta, where(ge(d, delta), delta, d));
  return {cast(slope * grad, in.dtype)};
}

// ---- binary cross entropy

Values binary_cross_entropy(Context& ctx) {
  const Pair in(ctx, 0);
  const Value floor = constant_like(in.input, -100.0);
  const Value log_not = maximum(log1p(-in.input), floor), log_is = maximum(log(in.input), floor);
  Value losses = (in.target - 1.0) * log_not - in.target * log_is;
  if (ctx.has(2)) losses = losses * operand(ctx, 2, in.dtype);
  return reduced(in.dtype, losses, ctx.integer(3));
}

Values binary_cross_entropy_backward(Context& ctx) {
  const Pair in(ctx, 1);
  const Value spread_grad = spread(operand(ctx, 0, in.dtype), in.input, ctx.integer(4));
  const Value variance = (1.0 - in.input) * in.input;
  const Value slope = (in.input - in.target) / maximum(variance, constant_like(variance, 1e-12));
  Value grad = spread_grad * slope;
  if (ctx.has(3)) grad = grad * operand(ctx, 3, in.dtype);
  return {cast(grad, in.dtype)};
}

// ---- margins between classes

/// Input of shape [N, C] or [C] as [N, C], with its targets.
struct Classes {
  Classes(Context& ctx, size_t first) : dtype(ctx.common()) {
    x = operand(ctx, first, dtype);
    batched = x.rank() > 1;
    if (!batched) x = reshape(x, {1, x.numel()});
    n = x.dim(0);
    c = x.dim(1);
  }
  DType dtype;
  Value x;
  bool batched;
  int64_t n, c;
};

/// The terms of multi_margin_loss before their power, and what each is weighted with.
struct MultiMargin {
  MultiMargin(Context& ctx, size_t first) : in(ctx, first) {
    const Value raw = reshape(ctx.tensor(first + 1), {in.n, 1});
    const Value index = ctx.checked_index(raw, in.c, 1, false);
    is_target = eq(iota_like(in.x, 1, DType::S64), broadcast_to(index, {in.n, in.c}));
    const Value zero = zeros_like(in.x);
    const Value chosen = reduce_sum(where(is_target, in.x, zero), {1}, true);
    margins = where(is_target, zero, parameter(ctx, first + 3, in.dtype) - chosen + in.x);
    weight = constant_like(in.x, 1.0 / static_cast<double>(in.c));
    if (ctx.has(first + 4)) {
      const Value weights = reshape(operand(ctx, first + 4, in.dtype), {1, in.c});
      const Value of_target = reduce_sum(where(is_target, weights, zero), {1}, true);
      weight = weight * of_target;
    }
    squared = ctx.number(first + 2) == 2.0;
  }
  Classes in;
  Value is_target, margins, weight;
  bool squared;
};

Values multi_margin_loss(Context& ctx) {
  const MultiMargin m(ctx, 0);
  const Value positive = maximum(m.margins, zeros_like(m.margins));
  const Value terms = (m.squared ? positive * positive : positive) * m.weight;
  Value losses = reduce_sum(terms, {1});
  const int64_t reduction = ctx.integer(5);
  if (!m.in.batched) losses = reshape(losses, {});
  return reduced(m.in.dtype, losses, reduction);
}

Values multi_margin_loss_backward(Context& ctx) {
  const MultiMargin m(ctx, 1);
  const int64_t reduction = ctx.integer(6);
  Value grad = operand(ctx, 0, m.in.dtype);
  if (grad.rank() > 0) grad = reshape(grad, {grad.numel(), 1});
  if (reduction == kMean) grad = grad / static_cast<double>(m.in.n);
  const Value zero = zeros_like(m.margins);
  const Value slope = m.squared ? 2.0 * m.margins : ones_like(m.margins);
  const Value others = where(gt(m.margins, zero), slope * m.weight, zero);
  const Value target = -reduce_sum(others, {1}, true);
  const Value each = where(m.is_target, target, others) * grad;
  return {reshape(cast(each, m.in.dtype), ctx.out().dims)};
}

/// The targets of multilabel_margin_loss: a list of classes for each row, ended by -1.
struct LabelLists {
  LabelLists(Context& ctx, size_t first) : in(ctx, first) {
    const Value raw = convert(reshape(ctx.tensor(first + 1), {in.n, in.c}), DType::S64);
    // Valid up to the first negative: as many as there are before it.
    const Value position = iota_like(raw, 1, DType::S64);
    const Value ends = where(lt(raw, 0.0), position, constant_int_like(raw, in.c));
    valid = lt(position, reduce_min(ends, {1}, true));
    const Value index = ctx.checked_index(raw, in.c, 1, true, valid);
    // [N, label, class]
    const Dims cube{in.n, in.c, in.c};
    const Value classes = ctx.b.iota({DType::S64, cube}, 2);
    hits = logical_and(eq(classes, broadcast_to(unsqueeze(index, 2), cube)),
                       broadcast_to(unsqueeze(valid, 2), cube));
    is_target = reduce_or(hits, {1});
    const Value x = broadcast_to(unsqueeze(in.x, 1), cube);
    const Value chosen = reduce_sum(where(hits, x, 0.0), {2}, true);
    const Value counts = logical_and(broadcast_to(unsqueeze(valid, 2), cube),
                                     logical_not(broadcast_to(unsqueeze(is_target, 1), cube)));
    margins = where(counts, 1.0 - chosen + x, 0.0);
  }
  Classes in;
  Value valid, hits, is_target, margins;
};

Values multilabel_margin_loss_forward(Context& ctx) {
  const LabelLists m(ctx, 0);
  const Value positive = maximum(m.margins, zeros_like(m.margins));
  Value losses = reduce_sum(positive, {1, 2}) / static_cast<double>(m.in.c);
  if (!m.in.batched) losses = reshape(losses, {});
  Values results = reduced(m.in.dtype, losses, ctx.integer(2));
  results.push_back(reshape(cast(m.is_target, m.in.dtype), ctx.out(1).dims));
  return results;
}

Values multilabel_margin_loss_backward(Context& ctx) {
  const LabelLists m(ctx, 1);
  Value grad = operand(ctx, 0, m.in.dtype);
  if (grad.rank() > 0) grad = reshape(grad, {grad.numel(), 1});
  double scale = 1.0 / static_cast<double>(m.in.c);
  if (ctx.integer(3) == kMean) scale /= static_cast<double>(m.in.n);
  const Value active = where(gt(m.margins, 0.0), ones_like(m.margins), 0.0);
  const Value of_class = reduce_sum(active, {1});
  const Value of_label = reduce_sum(active, {2}, true);
  const Value of_target =
      reduce_sum(where(m.hits, broadcast_to(of_label, m.hits.dims()), 0.0), {1});
  const Value each = (of_class - of_target) * scale * grad;
  return {reshape(cast(each, m.in.dtype), ctx.out().dims)};
}

}  // namespace

Table loss_table() {
  return {
      {.name = "aten::mse_loss", .lower = mse_loss},
      {.name = "aten::mse_loss_backward", .lower = mse_loss_backward},
      {.name = "aten::smooth_l1_loss", .lower = smooth_l1_loss, .promoted_args = {0, 1}},
      {.name = "aten::smooth_l1_loss_backward",
       .lower = smooth_l1_loss_backward,
       .promoted_args = {0, 1, 2}},
      {.name = "aten::huber_loss", .lower = huber_loss, .promoted_args = {0, 1}},
      {.name = "aten::huber_loss_backward",
       .lower = huber_loss_backward,
       .promoted_args = {0, 1, 2}},
      {.name = "aten::binary_cross_entropy", .lower = binary_cross_entropy},
      {.name = "aten::binary_cross_entropy_backward", .lower = binary_cross_entropy_backward},
      {.name = "aten::multi_margin_loss",
       .lower = multi_margin_loss,
       .static_args = {2},
       .promoted_args = {0}},
      {.name = "aten::multi_margin_loss_backward",
       .lower = multi_margin_loss_backward,
       .static_args = {3},
       .promoted_args = {0, 1}},
      {.name = "aten::multilabel_margin_loss_forward",
       .lower = multilabel_margin_loss_forward,
       .promoted_args = {0}},
      {.name = "aten::multilabel_margin_loss_backward",
       .lower = multilabel_margin_loss_backward,
       .promoted_args = {0, 1}},
  };
}

}  // namespace torch_tpu::lowering
