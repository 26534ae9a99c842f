// Scaling of gradients in mixed precision.
#include "lowering/families.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {

namespace {

/// (self, found_inf, inv_scale): gradients times inv_scale, and 1 in found_inf if one is not
/// finite.
Values check_and_unscale(Context& ctx) {
  Value found = ctx.tensor(1);
  const Value inv_scale = stablehlo::reshape(cast(ctx.tensor(2), DType::F32), {});
  Values out;
  for (const Value& grad : ctx.tensors(0)) {
    const Value x = widen(grad);
    const Value bad = stablehlo::logical_not(ctx.b.is_finite(x));
    const Value any = stablehlo::reduce_or(bad, stablehlo::all_dims(bad));
    found = stablehlo::where(any, 1.0, found);
    out.push_back(x * cast(inv_scale, x.dtype()));
  }
  out.push_back(found);
  return out;
}

/// (self, growth_tracker, found_inf, scale_growth_factor, scale_backoff_factor, growth_interval).
Values update_scale(Context& ctx) {
  const Value scale = ctx.tensor(0), tracker = ctx.tensor(1);
  const Value overflow =
      stablehlo::reshape(stablehlo::ne(ctx.tensor(2), stablehlo::zeros_like(ctx.tensor(2))), {});
  const Value successes = tracker + 1.0;
  const Value due = stablehlo::eq(successes, static_cast<double>(ctx.integer(5)));
  const Value grown = scale * ctx.scalar(3, scale.dtype());
  const Value grows = stablehlo::logical_and(due, ctx.b.is_finite(grown));
  const Value fresh = stablehlo::where(overflow, scale * ctx.scalar(4, scale.dtype()),
                                       stablehlo::where(grows, grown, scale));
  const Value restart = stablehlo::logical_or(overflow, due);
  return {fresh, stablehlo::where(restart, 0.0, successes)};
}

}  // namespace

Table amp_table() {
  return {
      {"aten::_amp_foreach_non_finite_check_and_unscale_", check_and_unscale},
      {"aten::_amp_update_scale_", update_scale},
  };
}

}  // namespace torch_tpu::lowering
