// Softmax, its logarithm, the masked form, and their gradients.
#include "lowering/families.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {

namespace {

Value shifted(Value x, const Dims& dims) { return x - stablehlo::reduce_max(x, dims, true); }

Values softmax(Context& ctx) {
  const Value x = widen(ctx.tensor(0));
  const Dims dims = dim_argument(ctx, 1, x.rank());
  const Value e = stablehlo::exp(shifted(x, dims));
  return {e / sum(e, dims, true)};
}

Values log_softmax(Context& ctx) {
  const Value x = widen(ctx.tensor(0));
  const Dims dims = dim_argument(ctx, 1, x.rank());
  const Value s = shifted(x, dims);
  return {s - stablehlo::log(sum(stablehlo::exp(s), dims, true))};
}

Values softmax_backward(Context& ctx) {
  const Value grad = widen(ctx.tensor(0)), output = widen(ctx.tensor(1));
  const Dims dims = dim_argument(ctx, 2, grad.rank());
  return {(grad - sum(grad * output, dims, true)) * output};
}

Values log_softmax_backward(Context& ctx) {
  const Value grad = widen(ctx.tensor(0)), output = widen(ctx.tensor(1));
  const Dims dims = dim_argument(ctx, 2, grad.rank());
  return {grad - stablehlo::exp(output) * sum(grad, dims, true)};
}

/// The mask (true: not taken) in the shape of x: [L, L] for every batch and head (type 0), [batch,
/// L] for every head and query (type 1), or already in that shape.
Value full_mask(const Context& ctx, size_t mask_at, size_t type_at, const Dims& dims) {
  Value mask = ctx.tensor(mask_at);
  if (type_at != 0 && ctx.integer_or(type_at, 2) == 1 && mask.rank() == 2 && dims.size() == 4) {
    mask = stablehlo::reshape(mask, {mask.dim(0), 1, 1, mask.dim(1)});
  }
  return stablehlo::broadcast_to(mask, dims);
}

Dims masked_dim(const Context& ctx, size_t i, int64_t rank) {
  if (ctx.has(i)) return dim_argument(ctx, i, rank);
  return rank == 0 ? Dims{} : Dims{rank - 1};
}

Values masked_softmax(Context& ctx) {
  const Value x = widen(ctx.tensor(0));
  const Dims dims = masked_dim(ctx, 2, x.rank());
  const Value mask = full_mask(ctx, 1, 3, x.dims());
  const Value taken = stablehlo::where(mask, ctx.b.lowest(x.dtype()), x);
  // exp of a masked element is 0 even where nothing is left and the maximum is -inf: 0 / 0 then.
  const Value e = stablehlo::where(mask, 0.0, stablehlo::exp(shifted(taken, dims)));
  return {e / sum(e, dims, true)};
}

Values masked_softmax_backward(Context& ctx) {
  const Value grad = widen(ctx.tensor(0)), output = widen(ctx.tensor(1));
  const Dims dims = masked_dim(ctx, 3, grad.rank());
  const Value mask = full_mask(ctx, 2, 0, grad.dims());
  const Value products = stablehlo::where(mask, 0.0, grad * output);
  return {stablehlo::where(mask, 0.0, (grad - sum(products, dims, true)) * output)};
}

}  // namespace

Table softmax_table() {
  return {
      {"aten::_softmax", softmax},
      {"aten::_log_softmax", log_softmax},
      {"aten::_softmax_backward_data", softmax_backward},
      {"aten::_log_softmax_backward_data", log_softmax_backward},
      {"aten::_masked_softmax", masked_softmax},
      {"aten::_masked_softmax_backward", masked_softmax_backward},
  };
}

}  // namespace torch_tpu::lowering
