// Tables of rows looked up by index, and their gradients.
#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/gather_scatter.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {
namespace {

/// As aten::_embedding_bag numbers them.
enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

/// A 1-D index of rows, with -1 (outside) for the padding row and for what is not a row.
Value rows_without_padding(Value index, int64_t rows, int64_t padding) {
  const Value wide = convert(flatten(index), DType::S64);
  const Value low = lt(wide, 0.0);
  Value skip = logical_or(low, ge(wide, stablehlo::constant_int_like(wide, rows)));
  if (padding >= 0) skip = logical_or(skip, eq(wide, stablehlo::constant_int_like(wide, padding)));
  return where(skip, stablehlo::constant_int_like(wide, -1), wide);
}

/// How often each row of [0, rows) is in the index.
Value count_rows(Value index, int64_t rows) {
  Builder& b = index.builder();
  return scatter_along(b.zeros({DType::S32, {rows}}), 0, index,
                       b.constant_int(DType::S32, 1, index.dims()), Combine::Add);
}

/// A row [n] as a factor for [n, features].
Value as_column(Value x) { return unsqueeze(x, -1); }

/// A count as a divisor.
Value at_least_one(Value count, DType dtype) {
  return convert(maximum(count, stablehlo::ones_like(count)), dtype);
}

/// x / how often its row is in the index, for [n, features].
Value divide_by_count(Value x, Value index, int64_t rows) {
  const Value row = maximum(index, stablehlo::zeros_like(index));
  return x / as_column(at_least_one(take(count_rows(index, rows), 0, row), x.dtype()));
}

/// A table [rows, features] with the gradients [n, features] added at the rows of the index.
Value sum_rows(Value grad, Value index, int64_t rows) {
  const Value zeros = grad.builder().zeros({grad.dtype(), {rows, grad.dim(1)}});
  return scatter_slices(zeros, 0, index, grad, Combine::Add);
}

Values embedding(Context& ctx) {
  const Value table = ctx.tensor(0);
  return {
      take(table, 0, ctx.checked_index(ctx.tensor(1), table.dim(0), 0, /*allow_negative=*/false))};
}

Values embedding_dense_backward(Context& ctx) {
  const int64_t rows = ctx.integer(2);
  const DType compute = Context::compute_dtype(ctx.tensor(0).dtype());
  const Value index = rows_without_padding(ctx.tensor(1), rows, ctx.integer(3));
  const Dims& out = ctx.out().dims;
  if (index.numel() == 0 || stablehlo::numel(out) == 0) return {ctx.b.zeros({compute, out})};
  Value grad = reshape(cast(ctx.tensor(0), compute), {index.dim(0), out.back()});
  if (ctx.flag(4)) grad = divide_by_count(grad, index, rows);
  return {sum_rows(grad, index, rows)};
}

Values embedding_renorm(Context& ctx) {
  const Value table = ctx.tensor(0);
  const Value index =
      ctx.checked_index(flatten(ctx.tensor(1)), table.dim(0), 0, /*allow_negative=*/false);
  if (index.numel() == 0 || table.numel() == 0) return {table};
  const DType compute = Context::compute_dtype(table.dtype());
  const Value rows = cast(take(table, 0, index), compute);
  const Value norm = vector_norm(rows, ctx.number(3), {1});
  const Value limit = broadcast_to(ctx.scalar(2, compute), norm.dims());
  const Value scale = where(gt(norm, limit), limit / (norm + 1e-7), stablehlo::ones_like(norm));
  const Value scaled = cast(rows * as_column(scale), table.dtype());
  // A row that is named twice is written twice, with one and the same value.
  return {scatter_slices(table, 0, index, scaled, Combine::Set)};
}

// ---- bags: sums, means or maxima of consecutive indices

/// Bag of each of n indices, from the bags' first positions.
Value bag_of_index(Value offsets, int64_t n) {
  Builder& b = offsets.builder();
  // The number of bags that begin at or before i, less one. A bag that begins at n has no index.
  const Value starts =
      scatter_along(b.zeros({DType::S32, {n}}), 0, rows_without_padding(offsets, n, /*padding=*/-1),
                    b.constant_int(DType::S32, 1, offsets.dims()), Combine::Add);
  return prefix_sum(starts) - 1.0;
}

/// The row index of the first of a bag's elements that is its greatest, for each feature; 0 for
/// empty bags.
Value row_of_greatest(Value index, Value bag, Value counted, Value picked, Value greatest) {
  Builder& b = picked.builder();
  const int64_t n = index.dim(0);
  const Value of_bag = take(greatest, 0, bag);
  const Value same = logical_or(eq(picked, of_bag),
                                logical_and(stablehlo::is_nan(picked), stablehlo::is_nan(of_bag)));
  const Value position = b.iota({DType::S32, picked.dims()}, 0);
  const Value none = stablehlo::constant_int_like(position, n);
  const Value first = scatter_slices(b.constant_int(DType::S32, n, greatest.dims()), 0, counted,
                                     where(same, position, none), Combine::Min);
  const Value found = lt(first, static_cast<double>(n));
  const Value row = take(index, 0, minimum(first, stablehlo::constant_int_like(first, n - 1)));
  return where(found, row, stablehlo::zeros_like(row));
}

/// Results that only backward reads have other shapes on the CPU, where some are empty.
Value or_empty(Value x, const Type& type) {
  return x.dims() == type.dims ? x : x.builder().zeros(type);
}

Values embedding_bag(Context& ctx) {
  const Value table = ctx.tensor(0);
  const int64_t rows = table.dim(0), features = table.dim(1);
  const Value index = ctx.checked_index(ctx.tensor(1), rows, 0, /*allow_negative=*/false);
  const int64_t n = index.dim(0);
  const int64_t mode = ctx.integer_or(4, kSum);
  const bool has_end = ctx.flag_or(7, false);
  const int64_t padding = ctx.integer_or(8, -1);
  Value offsets = ctx.tensor(2);
  const int64_t bags = offsets.dim(0) - (has_end ? 1 : 0);
  if (has_end) offsets = slice_dim(offsets, 0, 0, bags);

  const DType compute = Context::compute_dtype(table.dtype());
  const Value bag = bag_of_index(offsets, n);
  // Bag of the indices that count, -1 for padding.
  Value counted = bag;
  if (padding >= 0)
    counted =
        where(eq(index, static_cast<double>(padding)), stablehlo::constant_int_like(bag, -1), bag);
  const Value sizes = count_rows(counted, bags);
  Value picked = cast(take(table, 0, index), compute);
  if (ctx.has(6)) picked = picked * as_column(cast(ctx.tensor(6), compute));

  Value result, greatest_row = ctx.b.zeros(ctx.out(3));
  const Value zeros = ctx.b.zeros({compute, {bags, features}});
  if (mode == kMax) {
    const Value least = ctx.b.lowest(compute, zeros.dims());
    const Value greatest = scatter_slices(least, 0, counted, picked, Combine::Max);
    result = where(as_column(gt(sizes, 0.0)), greatest, zeros);
    if (n > 0) greatest_row = row_of_greatest(index, bag, counted, picked, greatest);
  } else {
    result = scatter_slices(zeros, 0, counted, picked, Combine::Add);
    if (mode == kMean) result = result / as_column(at_least_one(sizes, compute));
  }
  const int64_t unused_sizes = ctx.out(2).dims.at(0) - bags;
  const Value all_sizes = ctx.b.pad(sizes, ctx.b.zeros({DType::S32, {}}), {0}, {unused_sizes});
  return {result, or_empty(bag, ctx.out(1)), all_sizes, or_empty(greatest_row, ctx.out(3))};
}

/// Positions of the arguments of the gradient for the table.
struct BagGradArgs {
  size_t indices, bag, sizes, greatest_row, rows, by_frequency, mode, weights, padding;
};

Values bag_grad(Context& ctx, const BagGradArgs& at) {
  const Value grad_in = ctx.tensor(0);
  const DType compute = Context::compute_dtype(grad_in.dtype());
  const Value grad = cast(grad_in, compute);
  const int64_t rows = ctx.integer(at.rows);
  const Value sizes = slice_dim(ctx.tensor(at.sizes), 0, 0, grad.dim(0));
  const int64_t mode = ctx.integer(at.mode);
  if (mode == kMax) {
    const Value used = where(as_column(gt(sizes, 0.0)), grad, stablehlo::zeros_like(grad));
    const Value zeros = ctx.b.zeros({compute, {rows, grad.dim(1)}});
    return {scatter_along(zeros, 0, ctx.tensor(at.greatest_row), used, Combine::Add)};
  }
  const Value index =
      rows_without_padding(ctx.tensor(at.indices), rows, ctx.integer_or(at.padding, -1));
  const Value bag = ctx.tensor(at.bag);
  Value each = take(grad, 0, bag);
  if (ctx.has(at.weights)) each = each * as_column(cast(ctx.tensor(at.weights), compute));
  if (ctx.flag(at.by_frequency)) each = divide_by_count(each, index, rows);
  if (mode == kMean) each = each / as_column(take(at_least_one(sizes, compute), 0, bag));
  return {sum_rows(each, index, rows)};
}

Values embedding_bag_dense_backward(Context& ctx) {
  return bag_grad(ctx, {.indices = 1,
                        .bag = 2,
                        .sizes = 3,
                        .greatest_row = 4,
                        .rows = 5,
                        .by_frequency = 6,
                        .mode = 7,
                        .weights = 8,
                        .padding = 9});
}

Values embedding_bag_backward(Context& ctx) {
  if (ctx.flag(9)) throw stablehlo::BuildError("embedding_bag: sparse gradients are not supported");
  return bag_grad(ctx, {.indices = 1,
                        .bag = 3,
                        .sizes = 4,
                        .greatest_row = 5,
                        .rows = 6,
                        .by_frequency = 7,
                        .mode = 8,
                        .weights = 10,
                        .padding = 11});
}

Values embedding_bag_weights_backward(Context& ctx) {
  const Value table = ctx.tensor(1);
  const DType compute = Context::compute_dtype(table.dtype());
  const Value index = ctx.checked_index(ctx.tensor(2), table.dim(0), 0, /*allow_negative=*/false);
  const Value grad = cast(take(ctx.tensor(0), 0, ctx.tensor(4)), compute);
  const Value product = stablehlo::reduce_sum(grad * cast(take(table, 0, index), compute), {1});
  const int64_t padding = ctx.integer_or(6, -1);
  if (padding < 0) return {product};
  return {where(eq(index, static_cast<double>(padding)), stablehlo::zeros_like(product), product)};
}

}  // namespace

Table embedding_table() {
  return {
      {"aten::embedding", embedding},
      {"aten::embedding_dense_backward", embedding_dense_backward},
      {.name = "aten::embedding_renorm", .lower = embedding_renorm, .static_args = {3}},
      {"aten::_embedding_bag", embedding_bag},
      {"aten::_embedding_bag_forward_only", embedding_bag},
      {"aten::_embedding_bag_backward", embedding_bag_backward},
      {"aten::_embedding_bag_dense_backward", embedding_bag_dense_backward},
      {"aten::_embedding_bag_per_sample_weights_backward", embedding_bag_weights_backward},
  };
}

}  // namespace torch_tpu::lowering
