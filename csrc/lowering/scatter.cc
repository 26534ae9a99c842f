// torch.scatter and its relatives: element [.., index[.., i, ..], ..] of self meets src[.., i, ..].
#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/gather_scatter.h"

namespace torch_tpu::lowering {
namespace {

/// The arguments self, dim, index that all scatters begin with; 0-d tensors as 1-d.
struct Target {
  Value self;  // as given
  Value x;     // at least 1-d
  int64_t dim;
  Value index;  // in range; null if nothing is written
};

Value at_least_1d(Value x) { return x.rank() == 0 ? reshape(x, {1}) : x; }

Target target(Context& ctx) {
  Target t;
  t.self = ctx.tensor(0);
  t.x = at_least_1d(t.self);
  t.dim = stablehlo::wrap_dim(ctx.integer(1), t.x.rank());
  const Value index = at_least_1d(ctx.tensor(2));
  if (index.numel() == 0) return t;
  t.index = ctx.checked_index(index, t.x.dim(t.dim), t.dim, /*allow_negative=*/false);
  return t;
}

Values combine(const Target& t, Value updates, Combine how) {
  return {reshape(scatter_along(t.x, t.dim, t.index, updates, how), t.self.dims())};
}

Value source(Context& ctx, const Target& t) {
  return at_least_1d(cast(ctx.tensor(3), t.x.dtype()));
}

Value filled(Context& ctx, const Target& t) {
  return broadcast_to(ctx.scalar(3, t.x.dtype()), t.index.dims());
}

Values scatter_src(Context& ctx) {
  const Target t = target(ctx);
  return t.index ? combine(t, source(ctx, t), Combine::Set) : Values{t.self};
}

Values scatter_value(Context& ctx) {
  const Target t = target(ctx);
  return t.index ? combine(t, filled(ctx, t), Combine::Set) : Values{t.self};
}

Values scatter_reduce_src(Context& ctx) {
  const Target t = target(ctx);
  return t.index ? combine(t, source(ctx, t), reduction_named(ctx.text(4)).combine)
                 : Values{t.self};
}

Values scatter_reduce_value(Context& ctx) {
  const Target t = target(ctx);
  return t.index ? combine(t, filled(ctx, t), reduction_named(ctx.text(4)).combine)
                 : Values{t.self};
}

Values scatter_add(Context& ctx) {
  const Target t = target(ctx);
  return t.index ? combine(t, source(ctx, t), Combine::Add) : Values{t.self};
}

Values scatter_reduce(Context& ctx) {
  Target t = target(ctx);
  if (!t.index) return {t.self};
  const Reduction reduction = reduction_named(ctx.text(4));
  const bool include_self = ctx.flag_or(5, true);
  const DType dtype = t.x.dtype();
  const DType compute = Context::compute_dtype(dtype);
  const Value src = cast(source(ctx, t), compute);
  Value x = cast(t.x, compute);
  if (!include_self) {
    const Value identity = combine_identity(ctx.b, reduction.combine, compute, t.index.dims());
    x = scatter_along(x, t.dim, t.index, identity, Combine::Set);
  }
  Value result = scatter_along(x, t.dim, t.index, src, reduction.combine);
  if (reduction.mean) {
    const Value ones = ctx.b.constant_int(DType::S32, 1, t.index.dims());
    const Value start = ctx.b.constant_int(DType::S32, include_self ? 1 : 0, x.dims());
    result = mean_of(result, scatter_along(start, t.dim, t.index, ones, Combine::Add));
  }
  return {reshape(cast(result, dtype), t.self.dims())};
}

/// Counts of the elements in equal bins between two bounds; bounds that are equal mean the extrema.
Values histc(Context& ctx) {
  const int64_t bins = ctx.integer_or(1, 100);
  const DType compute = Context::compute_dtype(ctx.out().dtype);
  const Value x = flatten(cast(ctx.tensor(0), compute));
  const Value counts = ctx.b.zeros({compute, {bins}});
  if (x.numel() == 0) return {counts};
  Value low = ctx.scalar_or(2, compute, 0), high = ctx.scalar_or(3, compute, 0);
  const Value automatic = eq(low, high);
  low = where(automatic, stablehlo::reduce_min(x, {0}), low);
  high = where(automatic, stablehlo::reduce_max(x, {0}), high);
  const Value single = eq(low, high);
  low = where(single, low - 1.0, low);
  high = where(single, high + 1.0, high);
  const Value inside = logical_and(ge(x, low), le(x, high));
  const Value place = (x - low) * static_cast<double>(bins) / (high - low);
  const Value bin = minimum(convert(where(inside, place, 0.0), DType::S64),
                            ctx.b.constant_int(DType::S64, bins - 1, x.dims()));
  const Value index = where(inside, bin, stablehlo::constant_int_like(bin, -1));
  return {scatter_along(counts, 0, index, stablehlo::ones_like(x), Combine::Add)};
}

}  // namespace

Table scatter_table() {
  return {
      {"aten::scatter.src", scatter_src},
      {"aten::scatter.value", scatter_value},
      {"aten::scatter.reduce", scatter_reduce_src},
      {"aten::scatter.value_reduce", scatter_reduce_value},
      {"aten::scatter_add", scatter_add},
      {"aten::scatter_reduce.two", scatter_reduce},
      {"aten::histc", histc},
  };
}

}  // namespace torch_tpu::lowering
