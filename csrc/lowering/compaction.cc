// Operators whose result's size depends on values. These lowerings give results padded to the
// greatest size, and the true size; csrc/aten/dynamic.cc reads the size and narrows.
#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/gather_scatter.h"
#include "lowering/reduce.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {
namespace {

Value nonzero_mask(Value x) { return flatten(cast(x, DType::Pred)); }

/// Coordinates [rank, n] of flat positions [n] in a tensor of these dims.
Value coordinates(Value position, const Dims& dims) {
  Builder& b = position.builder();
  const int64_t rank = static_cast<int64_t>(dims.size());
  if (rank == 0) return b.zeros({position.dtype(), {0, position.dim(0)}});
  Values rows(rank);
  for (int64_t d = rank - 1; d >= 0; --d) {
    const Value size = stablehlo::constant_int_like(position, std::max<int64_t>(dims[d], 1));
    rows[d] = unsqueeze(d > 0 ? remainder(position, size) : position, 0);
    position = position / size;
  }
  return b.concatenate(rows, 0);
}

/// Flat positions of the true elements, in order, then zeros; and their number.
struct Found {
  Value position, count;
};

Found find_true(Value mask) {
  const Compaction to = compact(mask);
  const Value each = mask.builder().iota({to.position.dtype(), mask.dims()}, 0);
  return {move_together(each, to), to.count};
}

Values nonzero(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Found found = find_true(nonzero_mask(x));
  return {coordinates(found.position, x.dims()), found.count};
}

Values nonzero_static(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Found found = find_true(nonzero_mask(x));
  const Dims& out = ctx.out().dims;
  const int64_t size = out.at(0), there = std::min(size, found.position.dim(0));
  const Value first = coordinates(slice_dim(found.position, 0, 0, there), x.dims());
  const Value all = convert(transpose(first, {1, 0}), DType::S64);
  const Value padded = ctx.b.pad(all, ctx.b.zeros({DType::S64, {}}), {0, 0}, {size - there, 0});
  const Value row = ctx.b.iota({found.count.dtype(), out}, 0);
  const Value fill = ctx.b.constant_int(DType::S64, ctx.integer_or(2, -1));
  return {where(lt(row, broadcast_to(found.count, out)), padded, fill)};
}

Values masked_select(Context& ctx) {
  const Value x = ctx.tensor(0), mask = cast(ctx.tensor(1), DType::Pred);
  const Dims dims = stablehlo::broadcast_shapes(x.dims(), mask.dims());
  const Compaction to = compact(flatten(broadcast_to(mask, dims)));
  return {move_together(flatten(broadcast_to(x, dims)), to), to.count};
}

/// Runs of equal neighbours: where a run begins, and of each element the run's number.
struct Runs {
  Value begins;  // Pred [n]
  Value number;  // [n]
};

/// `differs` [n - 1]: element i + 1 is another one than element i.
Runs runs_of(Value differs, int64_t n) {
  Builder& b = differs.builder();
  const Value first = b.constant_int(DType::Pred, 1, {1});
  const Value begins = b.concatenate(Values{first, differs}, 0);
  return {begins, prefix_sum(convert(begins, position_dtype(n))) - 1.0};
}

/// inverse, counts and number of runs. `from`: where the elements were before they were sorted, or
/// null.
Values describe_runs(const Runs& runs, Value from) {
  Builder& b = runs.number.builder();
  const int64_t n = runs.number.dim(0);
  const Value zeros = stablehlo::zeros_like(runs.number);
  const Value inverse =
      from ? scatter_along(zeros, 0, from, runs.number, Combine::Set) : runs.number;
  const Value counts =
      scatter_along(zeros, 0, runs.number, stablehlo::ones_like(zeros), Combine::Add);
  const Value count = b.reshape(slice_dim(runs.number, 0, n - 1, n), {}) + 1.0;
  return {inverse, counts, count};
}

Values unique(Context& ctx) {
  Value x = ctx.tensor(0);
  const int64_t n = x.dim(0);
  Value from;
  if (ctx.flag(1)) {
    const Sorted sorted = sort_along(x, 0, /*descending=*/false);
    x = sorted.values;
    from = sorted.positions;
  }
  const Runs runs = runs_of(ne(slice_dim(x, 0, 1, n), slice_dim(x, 0, 0, n - 1)), n);
  const Value to = where(runs.begins, runs.number, stablehlo::constant_int_like(runs.number, -1));
  Values results{scatter_along(stablehlo::zeros_like(x), 0, to, x, Combine::Set)};
  for (Value v : describe_runs(runs, from)) results.push_back(v);
  return results;
}

/// The order of the rows of x [n, m] by their first element, then the second, ...
Value row_order(Value x) {
  Builder& b = x.builder();
  const int64_t n = x.dim(0), m = x.dim(1);
  const Value zero = b.zeros({DType::S32, {}});
  // Stable sorts by the last column first.
  const auto step = [&](Builder&, std::span<const Value> v) -> Values {
    const Value column = v[0] - 1.0;
    const Values starts{zero, column};
    const Value keys = b.reshape(b.dynamic_slice(x, starts, {n, 1}), {n});
    const Value order = sorted_positions(take(keys, 0, v[1]), 0, /*descending=*/false);
    return {column, take(v[1], 0, order)};
  };
  const auto more = [](Builder&, std::span<const Value> v) -> Values { return {gt(v[0], 0.0)}; };
  const Values init{b.constant_int(DType::S32, m), b.iota({position_dtype(n), {n}}, 0)};
  return b.while_loop(init, more, step)[1];
}

Values unique_rows(Context& ctx) {
  Value x = ctx.tensor(0);
  const int64_t n = x.dim(0);
  Value from;
  if (ctx.flag(1)) {
    from = row_order(x);
    x = take(x, 0, from);
  }
  const Value differs =
      stablehlo::reduce_or(ne(slice_dim(x, 0, 1, n), slice_dim(x, 0, 0, n - 1)), {1});
  const Runs runs = runs_of(differs, n);
  const Value to = where(runs.begins, runs.number, stablehlo::constant_int_like(runs.number, -1));
  Values results{scatter_slices(stablehlo::zeros_like(x), 0, to, x, Combine::Set)};
  for (Value v : describe_runs(runs, from)) results.push_back(v);
  return results;
}

}  // namespace

Table compaction_table() {
  return {
      {"torch_tpu::nonzero_padded", nonzero},   {"torch_tpu::masked_select_padded", masked_select},
      {"torch_tpu::unique_padded", unique},     {"torch_tpu::unique_rows_padded", unique_rows},
      {"aten::nonzero_static", nonzero_static},
  };
}

}  // namespace torch_tpu::lowering
