// Operators that move elements without looking at them.
#include <algorithm>

#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/gather_scatter.h"

namespace torch_tpu::lowering {
namespace {

/// A flat empty tensor, which cat accepts beside tensors of any rank.
bool is_legacy_empty(Value x) { return x.dims() == Dims{0}; }

Values cat(Context& ctx) {
  const DType dtype = ctx.out().dtype;
  Values parts;
  for (const Value x : ctx.tensors(0))
    if (!is_legacy_empty(x)) parts.push_back(cast(x, dtype));
  if (parts.empty()) return {ctx.b.zeros(ctx.out())};
  if (parts.size() == 1) return {parts[0]};
  return {ctx.b.concatenate(parts, stablehlo::wrap_dim(ctx.integer_or(1, 0), parts[0].rank()))};
}

Dims wrapped(const Dims& dims, int64_t rank) {
  Dims result;
  for (const int64_t d : dims) result.push_back(stablehlo::wrap_dim(d, rank));
  return result;
}

Values flip(Context& ctx) {
  const Value x = ctx.tensor(0);
  if (x.rank() == 0) return {x};
  return {ctx.b.reverse(x, wrapped(ctx.ints(1), x.rank()))};
}

Value roll_dim(Value x, int64_t shift, int64_t dim) {
  const int64_t size = x.dim(dim);
  if (size == 0) return x;
  const int64_t cut = size - ((shift % size) + size) % size;
  if (cut == size) return x;
  const Values parts{slice_dim(x, dim, cut, size), slice_dim(x, dim, 0, cut)};
  return x.builder().concatenate(parts, dim);
}

Values roll(Context& ctx) {
  Value x = ctx.tensor(0);
  const Dims& shifts = ctx.ints(1);
  if (ctx.list_size(2) == 0) return {reshape(roll_dim(flatten(x), shifts.at(0), 0), x.dims())};
  if (x.rank() == 0) return {x};
  const Dims dims = wrapped(ctx.ints(2), x.rank());
  for (size_t i = 0; i < dims.size(); ++i) x = roll_dim(x, shifts.at(i), dims[i]);
  return {x};
}

/// Keeps the elements where column - row compares so with the diagonal.
Values triangle(Context& ctx, bool upper) {
  const Value x = ctx.tensor(0);
  const int64_t rank = x.rank(), rows = x.dim(rank - 2), columns = x.dim(rank - 1);
  // Beyond the corners every diagonal means the same.
  const int64_t diagonal = std::clamp(ctx.integer_or(1, 0), -rows - 1, columns + 1);
  const Type matrix{DType::S32, {rows, columns}};
  const Value distance = ctx.b.iota(matrix, 1) - ctx.b.iota(matrix, 0);
  const Value limit = stablehlo::constant_int_like(distance, diagonal);
  const Value keep = upper ? ge(distance, limit) : le(distance, limit);
  return {where(keep, x, stablehlo::zeros_like(x))};
}

Values tril(Context& ctx) { return triangle(ctx, /*upper=*/false); }
Values triu(Context& ctx) { return triangle(ctx, /*upper=*/true); }

Values repeat(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Dims& repeats = ctx.ints(1);
  const size_t added = repeats.size() - x.rank();
  // [a, b] by [r, s]: [r, a, s, b], then the pairs are merged.
  Dims pairs, from;
  for (size_t i = 0; i < repeats.size(); ++i) {
    pairs.push_back(repeats[i]);
    if (i < added) continue;
    from.push_back(static_cast<int64_t>(pairs.size()));
    pairs.push_back(x.dim(i - added));
  }
  return {reshape(ctx.b.broadcast_in_dim(x, pairs, from), ctx.out().dims)};
}

/// Adds the windows [.., count, .., size] back to where Tensor.unfold(dim, size, step) read them.
Values unfold_backward(Context& ctx) {
  Builder& b = ctx.b;
  const Value given = ctx.tensor(0);
  const Dims& out = ctx.ints(1);
  const DType compute = Context::compute_dtype(given.dtype());
  if (out.empty()) return {reshape(given, {})};
  const int64_t dim = stablehlo::wrap_dim(ctx.integer(2), static_cast<int64_t>(out.size()));
  const int64_t size = ctx.integer(3), step = ctx.integer(4), length = out[dim];
  if (stablehlo::numel(out) == 0 || given.numel() == 0) return {b.zeros({compute, out})};
  // [batch, count, size] with the windowed dimension last.
  Dims order;
  for (int64_t i = 0; i < given.rank() - 1; ++i)
    if (i != dim) order.push_back(i);
  const Dims rest_order = order;
  order.push_back(dim);
  order.push_back(given.rank() - 1);
  const Value moved = transpose(cast(given, compute), order);
  const int64_t count = given.dim(dim), batch = given.numel() / (count * size);
  Dims rest(moved.dims().begin(), moved.dims().end() - 2);
  // A window is cut into pieces of one step, so that piece j of window i is block i + j of the
  // result.
  const int64_t pieces = (size + step - 1) / step;
  const Value zero = b.zeros({compute, {}});
  const Value cut = b.reshape(
      b.pad(b.reshape(moved, {batch, count, size}), zero, {0, 0, 0}, {0, 0, pieces * step - size}),
      {batch, count, pieces, step});
  const int64_t blocks = count + pieces - 1;
  Value sum;
  constexpr int64_t unrolled = 16;
  if (pieces <= unrolled) {
    for (int64_t j = 0; j < pieces; ++j) {
      const Value piece = squeeze(slice_dim(cut, 2, j, j + 1), 2);
      const Value placed = b.pad(piece, zero, {0, j, 0}, {0, pieces - 1 - j, 0});
      sum = sum ? sum + placed : placed;
    }
  } else {
    const Type places{DType::S32, {count, pieces}};
    const Value block = flatten(b.iota(places, 0) + b.iota(places, 1));
    sum = scatter_slices(b.zeros({compute, {batch, blocks, step}}), 1, block,
                         b.reshape(cut, {batch, count * pieces, step}), Combine::Add);
  }
  Value flat = b.reshape(sum, {batch, blocks * step});
  flat = b.pad(flat, zero, {0, 0}, {0, length - blocks * step});
  // Back to the order of the result.
  rest.push_back(length);
  Dims back(out.size());
  for (size_t i = 0; i < rest_order.size(); ++i) back[rest_order[i]] = static_cast<int64_t>(i);
  back[dim] = static_cast<int64_t>(out.size()) - 1;
  return {transpose(b.reshape(flat, rest), back)};
}

Values trace(Context& ctx) {
  const Value x = ctx.tensor(0);
  const DType sum_dtype = Context::compute_dtype(ctx.out().dtype);
  const int64_t rows = x.dim(0), columns = x.dim(1), size = std::min(rows, columns);
  if (size == 0) return {ctx.b.zeros({sum_dtype, {}})};
  // The diagonal of a matrix is every (columns + 1)-th of its elements.
  const int64_t stride = columns + 1;
  const Value diagonal = slice_dim(flatten(x), 0, 0, (size - 1) * stride + 1, stride);
  return {stablehlo::reduce_sum(cast(diagonal, sum_dtype), {0})};
}

}  // namespace

Table shape_table() {
  return {
      {"aten::cat", cat},
      {"aten::flip", flip},
      {"aten::roll", roll},
      {"aten::tril", tril},
      {"aten::triu", triu},
      {"aten::repeat", repeat},
      {"aten::unfold_backward", unfold_backward},
      {"aten::trace", trace},
  };
}

}  // namespace torch_tpu::lowering
