// Negative log likelihood of target classes.
#include "lowering/families.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {

namespace {

enum Reduction : int64_t { None = 0, Mean = 1 };

/// The classes are the second dimension, or the only one.
int64_t class_dim(Value x) { return x.rank() == 1 ? 0 : 1; }

struct Targets {
  Value classes;  // one for each place, in range
  Value counted;  // false where the target is to be ignored
  Value weights;  // 0 there
};

/// Reads (self, target, weight, reduction, ignore_index), which start at argument `at`.
Targets targets(const Context& ctx, size_t at) {
  const Value x = ctx.tensor(at);
  const DType dtype = Context::compute_dtype(x.dtype());
  const int64_t dim = class_dim(x), classes = x.dim(dim);
  Dims places = x.dims();
  places.erase(places.begin() + dim);
  const Value target = stablehlo::reshape(cast(ctx.tensor(at + 1), DType::S64), places);
  const Value ignored = stablehlo::constant_int_like(target, ctx.integer(at + 4));
  const Value counted = stablehlo::ne(target, ignored);
  const Value index =
      stablehlo::convert(ctx.checked_index(target, classes, dim, /*allow_negative=*/false, counted),
                         position_dtype(classes));
  if (!ctx.has(at + 2)) return {index, counted, cast(counted, dtype)};
  stablehlo::GatherDims gather;
  gather.collapsed_slice_dims = gather.start_index_map = {0};
  gather.index_vector_dim = index.rank();
  gather.slice_sizes = {1};
  const Value weights = ctx.b.gather(cast(ctx.tensor(at + 2), dtype), index, gather);
  return {index, counted, stablehlo::where(counted, weights, 0.0)};
}

/// (self, target, weight, reduction, ignore_index) -> (loss, total weight).
Values nll_loss_forward(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Targets t = targets(ctx, 0);
  const Value picked = widen(pick(x, t.classes, class_dim(x)));
  const Value loss = stablehlo::where(t.counted, -(t.weights * picked), 0.0);
  const int64_t reduction = ctx.integer(3);
  if (reduction == Reduction::None && x.rank() > 1) {
    return {loss, ctx.b.zeros({loss.dtype(), {}})};
  }
  const Dims all = stablehlo::all_dims(loss);
  const Value total_loss = sum(loss, all), total_weight = sum(t.weights, all);
  return {reduction == Reduction::Mean ? total_loss / total_weight : total_loss, total_weight};
}

/// (grad_output, self, target, weight, reduction, ignore_index, total_weight).
Values nll_loss_backward(Context& ctx) {
  const Value x = ctx.tensor(1);
  const Targets t = targets(ctx, 1);
  const int64_t dim = class_dim(x);
  Value grad = cast(ctx.tensor(0), t.weights.dtype());
  if (ctx.integer(4) == Reduction::Mean) grad = grad / cast(ctx.tensor(6), grad.dtype());
  const Value at_target = stablehlo::where(t.counted, -(t.weights * grad), 0.0);
  const Value hit = stablehlo::eq(stablehlo::iota_like(x, dim, t.classes.dtype()),
                                  stablehlo::unsqueeze(t.classes, dim));
  return {stablehlo::where(hit, stablehlo::unsqueeze(at_target, dim), 0.0)};
}

}  // namespace

Table nll_loss_table() {
  return {
      {"aten::nll_loss_forward", nll_loss_forward},
      {"aten::nll_loss_backward", nll_loss_backward},
      {"aten::nll_loss2d_forward", nll_loss_forward},
      {"aten::nll_loss2d_backward", nll_loss_backward},
  };
}

}  // namespace torch_tpu::lowering
