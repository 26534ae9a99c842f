// Reading and writing at positions given by index tensors. Scatters along a dimension are in
// scatter.cc; operators whose result's size depends on values are in compaction.cc.
#include <string>

#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/gather_scatter.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {
namespace {

using stablehlo::GatherDims;
using stablehlo::ScatterDims;

// ---- index.Tensor, index_put

/// x[i, :, j] with index tensors, as in NumPy.
struct AdvancedIndex {
  Dims indexed;     // dimensions of x that have an index
  Dims result;      // shape of x[...]
  Dims window;      // dimensions of the result that come from x
  Dims shape;       // of the indices, broadcast
  Value positions;  // [shape..., indexed.size()]; null if nothing is read
};

AdvancedIndex advanced_index(Context& ctx, Value x, const Values& indices) {
  Builder& b = ctx.b;
  AdvancedIndex a;
  Dims rest;
  int64_t largest = 0;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d >= static_cast<int64_t>(indices.size()) || !indices[d]) {
      rest.push_back(x.dim(d));
      continue;
    }
    a.indexed.push_back(d);
    a.shape = stablehlo::broadcast_shapes(a.shape, indices[d].dims());
    largest = std::max(largest, x.dim(d));
  }
  if (a.indexed.empty()) {
    a.result = x.dims();
    return a;
  }
  // Indices side by side: their dimensions stay in place. Otherwise they go first.
  const int64_t count = static_cast<int64_t>(a.indexed.size());
  const int64_t rank = static_cast<int64_t>(a.shape.size());
  const bool adjacent = a.indexed.back() - a.indexed.front() == count - 1;
  const int64_t at = adjacent ? a.indexed.front() : 0;
  for (int64_t i = 0; i < static_cast<int64_t>(rest.size()); ++i)
    a.window.push_back(i < at ? i : i + rank);
  a.result.assign(rest.begin(), rest.begin() + at);
  a.result.insert(a.result.end(), a.shape.begin(), a.shape.end());
  a.result.insert(a.result.end(), rest.begin() + at, rest.end());
  if (stablehlo::numel(a.result) == 0 || x.numel() == 0) return a;
  Values columns;
  for (const int64_t d : a.indexed) {
    const Value index = ctx.checked_index(indices[d], x.dim(d), d);
    const Value narrow = convert(index, position_dtype(largest));
    columns.push_back(unsqueeze(broadcast_to(narrow, a.shape), -1));
  }
  a.positions = b.concatenate(columns, rank);
  return a;
}

Values index(Context& ctx) {
  const Value x = ctx.tensor(0);
  const AdvancedIndex a = advanced_index(ctx, x, ctx.tensors(1));
  if (a.indexed.empty()) return {x};
  if (!a.positions) return {ctx.b.zeros({x.dtype(), a.result})};
  GatherDims g;
  g.offset_dims = a.window;
  g.collapsed_slice_dims = a.indexed;
  g.start_index_map = a.indexed;
  g.index_vector_dim = static_cast<int64_t>(a.shape.size());
  g.slice_sizes = x.dims();
  for (const int64_t d : a.indexed) g.slice_sizes[d] = 1;
  return {ctx.b.gather(x, a.positions, g)};
}

std::string text_of(const Dims& dims) {
  std::string text = "[";
  for (const int64_t size : dims) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// The values to write, in the shape of x[indices]; in PyTorch's words if they do not fit.
Value values_for(Value values, const Dims& dims) {
  const Dims& given = values.dims();
  bool fits = given.size() <= dims.size();
  for (size_t i = 1; fits && i <= given.size(); ++i) {
    const int64_t size = given[given.size() - i];
    fits = size == 1 || size == dims[dims.size() - i];
  }
  if (!fits) {
    throw stablehlo::BuildError("shape mismatch: value tensor of shape " + text_of(given) +
                                " cannot be broadcast to indexing result of shape " +
                                text_of(dims));
  }
  return broadcast_to(values, dims);
}

Values index_put(Context& ctx) {
  const Value x = ctx.tensor(0);
  const AdvancedIndex a = advanced_index(ctx, x, ctx.tensors(1));
  const Value values = values_for(cast(ctx.tensor(2), x.dtype()), a.result);
  const bool accumulate = ctx.flag_or(3, false);
  if (a.indexed.empty()) return {accumulate ? x + values : values};
  if (!a.positions) return {x};
  ScatterDims s;
  s.update_window_dims = a.window;
  s.inserted_window_dims = a.indexed;
  s.scatter_dims_to_operand_dims = a.indexed;
  s.index_vector_dim = static_cast<int64_t>(a.shape.size());
  return {combine_scatter(x, a.positions, values, s, accumulate ? Combine::Add : Combine::Set)};
}

// ---- along one dimension

/// A 0-d tensor counts as 1-d where an operator names a dimension.
Value at_least_1d(Value x) { return x.rank() == 0 ? reshape(x, {1}) : x; }

int64_t dim_of(const Context& ctx, Value x, size_t position) {
  return stablehlo::wrap_dim(ctx.integer(position), x.rank());
}

/// The 1-D index of index_add and the like, in [0, size).
Value index_of(const Context& ctx, size_t position, int64_t size, int64_t dim,
               bool allow_negative = false) {
  return ctx.checked_index(flatten(ctx.tensor(position)), size, dim, allow_negative);
}

/// A source of slices: a 0-d or flat one gets the dimensions of x, with n slices along dim.
Value slices_for(Value source, Value x, int64_t dim, int64_t n) {
  Dims dims = x.dims();
  dims[dim] = n;
  return reshape(source, dims);
}

Values index_select(Context& ctx) {
  const Value x = at_least_1d(ctx.tensor(0));
  const int64_t dim = dim_of(ctx, x, 1);
  const Value picked = take(x, dim, index_of(ctx, 2, x.dim(dim), dim));
  return {reshape(picked, ctx.out().dims)};
}

Values gather(Context& ctx) {
  const Value x = at_least_1d(ctx.tensor(0));
  const Value index = at_least_1d(ctx.tensor(2));
  if (index.numel() == 0) return {ctx.b.zeros({x.dtype(), ctx.out().dims})};
  const int64_t dim = dim_of(ctx, x, 1);
  const Value checked = ctx.checked_index(index, x.dim(dim), dim, /*allow_negative=*/false);
  return {reshape(gather_along(x, dim, checked), ctx.out().dims)};
}

Values index_add(Context& ctx) {
  const Value self = ctx.tensor(0);
  const Value x = at_least_1d(self);
  const int64_t dim = dim_of(ctx, x, 1);
  const Value index = index_of(ctx, 2, x.dim(dim), dim);
  const DType compute = Context::compute_dtype(x.dtype());
  const Value source = slices_for(cast(ctx.tensor(3), compute), x, dim, index.dim(0));
  const Value alpha = broadcast_to(ctx.scalar_or(4, compute, 1), source.dims());
  const Value scaled = x.dtype() == DType::Pred ? logical_and(source, alpha) : source * alpha;
  const Value sum = scatter_slices(cast(x, compute), dim, index, scaled, Combine::Add);
  return {reshape(cast(sum, x.dtype()), self.dims())};
}

Values index_copy(Context& ctx) {
  const Value self = ctx.tensor(0);
  const Value x = at_least_1d(self);
  const int64_t dim = dim_of(ctx, x, 1);
  const Value index = index_of(ctx, 2, x.dim(dim), dim);
  const Value source = slices_for(cast(ctx.tensor(3), x.dtype()), x, dim, index.dim(0));
  return {reshape(scatter_slices(x, dim, index, source, Combine::Set), self.dims())};
}

/// Which positions along dim an index names, with the rank of x.
Value named_positions(Value x, int64_t dim, Value index) {
  Builder& b = x.builder();
  const Value none = b.zeros({DType::Pred, {x.dim(dim)}});
  const Value all = b.constant_int(DType::Pred, 1, index.dims());
  Dims dims(x.rank(), 1);
  dims[dim] = x.dim(dim);
  return reshape(scatter_along(none, 0, index, all, Combine::Set), dims);
}

Values index_fill(Context& ctx) {
  const Value self = ctx.tensor(0);
  const Value x = at_least_1d(self);
  const int64_t dim = dim_of(ctx, x, 1);
  const Value index = index_of(ctx, 2, x.dim(dim), dim, /*allow_negative=*/true);
  const Value value = reshape(ctx.scalar(3, x.dtype()), {});
  return {reshape(where(named_positions(x, dim, index), value, x), self.dims())};
}

Values index_reduce(Context& ctx) {
  const Value self = ctx.tensor(0);
  Value x = at_least_1d(self);
  const DType dtype = x.dtype();
  const int64_t dim = dim_of(ctx, x, 1);
  const Value index = index_of(ctx, 2, x.dim(dim), dim);
  const DType compute = Context::compute_dtype(dtype);
  const Value source = slices_for(cast(ctx.tensor(3), compute), x, dim, index.dim(0));
  const Reduction reduction = reduction_named(ctx.text(4));
  const bool include_self = ctx.flag_or(5, true);
  const Value named = named_positions(x, dim, index);
  x = cast(x, compute);
  const Value identity = combine_identity(ctx.b, reduction.combine, compute);
  Value result = scatter_slices(include_self ? x : where(named, identity, x), dim, index, source,
                                reduction.combine);
  if (reduction.mean) {
    const Value ones = ctx.b.constant_int(DType::S32, 1, index.dims());
    const Value start = ctx.b.constant_int(DType::S32, include_self ? 1 : 0, {x.dim(dim)});
    const Value count = scatter_along(start, 0, index, ones, Combine::Add);
    result = mean_of(result, reshape(count, named.dims()));
  }
  return {reshape(cast(result, dtype), self.dims())};
}

// ---- flat positions

Values take_flat(Context& ctx) {
  const Value x = flatten(ctx.tensor(0));
  return {take(x, 0, ctx.checked_index(ctx.tensor(1), x.dim(0), 0))};
}

Values put(Context& ctx) {
  const Value self = ctx.tensor(0);
  const Value index = ctx.checked_index(flatten(ctx.tensor(1)), self.numel(), 0);
  const Value source = reshape(cast(ctx.tensor(2), self.dtype()), index.dims());
  const Combine combine = ctx.flag_or(3, false) ? Combine::Add : Combine::Set;
  return {reshape(scatter_along(flatten(self), 0, index, source, combine), self.dims())};
}

// ---- masks

Values masked_scatter(Context& ctx) {
  const Dims& dims = ctx.out().dims;
  const Value self = broadcast_to(ctx.tensor(0), dims);
  const Value mask = flatten(broadcast_to(cast(ctx.tensor(1), DType::Pred), dims));
  const Value source = flatten(cast(ctx.tensor(2), self.dtype()));
  if (self.numel() == 0) return {self};
  const Value index =
      ctx.checked_index(compact(mask).position, source.dim(0), 0, /*allow_negative=*/false, mask);
  if (source.numel() == 0) return {self};
  return {reshape(where(mask, take(source, 0, index), flatten(self)), dims)};
}

Values masked_scatter_backward(Context& ctx) {
  const Value mask = cast(ctx.tensor(1), DType::Pred);
  const Dims dims = stablehlo::broadcast_shapes(ctx.tensor(0).dims(), mask.dims());
  const Value grad = flatten(broadcast_to(ctx.tensor(0), dims));
  const Compaction to = compact(flatten(broadcast_to(mask, dims)));
  const Value flat = ctx.b.zeros({grad.dtype(), {stablehlo::numel(ctx.out().dims)}});
  return {reshape(scatter_along(flat, 0, to.position, grad, Combine::Set), ctx.out().dims)};
}

}  // namespace

Table indexing_table() {
  return {
      {"aten::index.Tensor", index},
      {"aten::index_put", index_put},
      {"aten::_index_put_impl", index_put},
      {"aten::index_select", index_select},
      {"aten::gather", gather},
      {"aten::index_add", index_add},
      {"aten::index_copy", index_copy},
      {"aten::index_fill.int_Scalar", index_fill},
      {"aten::index_fill.int_Tensor", index_fill},
      {"aten::index_reduce", index_reduce},
      {"aten::take", take_flat},
      {"aten::put", put},
      {"aten::masked_scatter", masked_scatter},
      {"aten::masked_scatter_backward", masked_scatter_backward},
  };
}

}  // namespace torch_tpu::lowering
