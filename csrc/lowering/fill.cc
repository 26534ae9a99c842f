// Operators that overwrite a tensor with one value.
#include "lowering/families.h"
#include "lowering/pointwise.h"

namespace torch_tpu::lowering {

namespace {

Values fill(Context& ctx) { return {broadcast_to(ctx.scalar(1, ctx.out().dtype), ctx.out().dims)}; }

Values fill_scalar(Context& ctx) {
  return {broadcast_to(written_scalar(ctx, 1, ctx.out().dtype), ctx.out().dims)};
}

Values zero(Context& ctx) { return {ctx.b.zeros(ctx.out())}; }

}  // namespace

Table fill_table() {
  return {
      {.name = "aten::fill_.Scalar",
       .lower = fill_scalar,
       .overwrites = true,
       .allows_overlap = true},
      {.name = "aten::fill_.Tensor", .lower = fill, .overwrites = true},
      {.name = "aten::zero_", .lower = zero, .overwrites = true, .allows_overlap = true},
  };
}

}  // namespace torch_tpu::lowering
