// Median, k-th value and mode: by sorting.
#include "lowering/families.h"
#include "lowering/reduce.h"
#include "lowering/scan.h"

namespace torch_tpu::lowering {

namespace {

struct Sorted {
  Value values;
  Value positions;  // where each was before; position_dtype
};

/// Ascending and stable along dim, NaN last, whatever its sign.
Sorted sort_ascending(Value x, int64_t dim) {
  const Value positions = stablehlo::iota_like(x, dim, position_dtype(x.dim(dim)));
  const std::array<Value, 2> operands{x, positions};
  const Values sorted =
      x.builder().sort(operands, dim, true, [](Builder&, std::span<const Value> args) -> Values {
        const Value before = stablehlo::lt(args[0], args[1]);
        if (!stablehlo::is_float(args[0].dtype())) return {before};
        return {stablehlo::logical_or(
            before, stablehlo::logical_and(stablehlo::is_nan(args[1]),
                                           stablehlo::logical_not(stablehlo::is_nan(args[0]))))};
      });
  return {sorted[0], sorted[1]};
}

/// Numbers along dim that are not NaN.
Value count_numbers(Value x, int64_t dim) {
  const Value number = stablehlo::logical_not(stablehlo::is_nan(x));
  return sum(cast(number, position_dtype(x.dim(dim))), {dim}, true);
}

/// Where the (lower) median of sorted values is: NaN counts as the median where there is one, or
/// not at all.
Value median_position(Value sorted, int64_t dim, bool ignore_nan) {
  const Value numbers = count_numbers(sorted, dim);
  const Value zero = stablehlo::zeros_like(numbers);
  if (ignore_nan) return stablehlo::maximum((numbers - 1.0) / 2.0, zero);
  const int64_t size = sorted.dim(dim);
  const Value middle = stablehlo::constant_int_like(numbers, (size - 1) / 2);
  return stablehlo::where(stablehlo::lt(numbers, static_cast<double>(size)), numbers, middle);
}

void require_elements(const Context& ctx, Value x, int64_t dim) {
  if (x.dim(dim) > 0) return;
  const std::string_view name = ctx.op.name.substr(6);
  throw stablehlo::BuildError(std::string(name.substr(0, name.find('.'))) +
                              "(): Expected reduction dim " + std::to_string(dim) +
                              " to have non-zero size.");
}

Values at_position(const Context& ctx, const Sorted& sorted, Value position, int64_t dim) {
  return {shaped(ctx, select_position(sorted.values, position, dim), 0),
          shaped(ctx, select_position(sorted.positions, position, dim), 1)};
}

/// As C++ converts it on x86: by way of an int, or of an int64.
Value nan_as_integer(Context& ctx, DType dtype) {
  const bool narrow = stablehlo::byte_size(dtype) < 4;
  return narrow ? ctx.b.constant_int(dtype, 0) : ctx.b.lowest(dtype);
}

template <bool ignore_nan>
Values median_all(Context& ctx) {
  const Value x = stablehlo::flatten(ctx.tensor(0));
  if (x.numel() == 0) {
    return {stablehlo::is_float(x.dtype()) ? ctx.b.constant(x.dtype(), std::nan(""))
                                           : nan_as_integer(ctx, x.dtype())};
  }
  const Sorted sorted = sort_ascending(x, 0);
  return {select_position(sorted.values, median_position(sorted.values, 0, ignore_nan), 0)};
}

template <bool ignore_nan>
Values median_dim(Context& ctx) {
  const Value x = ctx.tensor(0);
  if (x.rank() == 0) return {x, ctx.b.constant_int(DType::S64, 0)};
  const int64_t dim = stablehlo::wrap_dim(ctx.integer(1), x.rank());
  require_elements(ctx, x, dim);
  const Sorted sorted = sort_ascending(x, dim);
  return at_position(ctx, sorted, median_position(sorted.values, dim, ignore_nan), dim);
}

Values kthvalue(Context& ctx) {
  const Value x = ctx.tensor(0);
  if (x.rank() == 0) return {x, ctx.b.constant_int(DType::S64, 0)};
  const int64_t at = ctx.integer(1) - 1;
  const int64_t dim = stablehlo::wrap_dim(ctx.integer(2), x.rank());
  const Sorted sorted = sort_ascending(x, dim);
  return {shaped(ctx, stablehlo::slice_dim(sorted.values, dim, at, at + 1), 0),
          shaped(ctx, stablehlo::slice_dim(sorted.positions, dim, at, at + 1), 1)};
}

/// The most frequent value, the least of several, and the position of its last occurrence.
Values mode(Context& ctx) {
  const Value x = ctx.tensor(0);
  if (x.rank() == 0) return {x, ctx.b.constant_int(DType::S64, 0)};
  const int64_t dim = stablehlo::wrap_dim(ctx.integer(1), x.rank());
  require_elements(ctx, x, dim);
  const int64_t size = x.dim(dim);
  const Sorted sorted = sort_ascending(x, dim);
  const Value at = stablehlo::iota_like(sorted.positions, dim, sorted.positions.dtype());
  // A run of equal values starts where the value before is another one, and its last element knows
  // the length. NaN differs from NaN.
  const Value changes = stablehlo::ne(stablehlo::slice_dim(sorted.values, dim, 1, size),
                                      stablehlo::slice_dim(sorted.values, dim, 0, size - 1));
  Dims edge(x.dims().size(), 0);
  edge[static_cast<size_t>(dim)] = 1;
  const Dims none(x.dims().size(), 0);
  const Value yes = ctx.b.constant_int(DType::Pred, 1);
  const Value starts = ctx.b.pad(changes, yes, edge, none);
  const Value ends = ctx.b.pad(changes, yes, none, edge);
  const Value start = cumulative_max(stablehlo::where(starts, at, 0.0), dim);
  const Value length = stablehlo::where(ends, at - start + 1.0, 0.0);
  const Value longest = stablehlo::reduce_max(length, {dim}, true);
  return at_position(ctx, sorted, position_of(length, longest, dim), dim);
}

}  // namespace

Table order_statistics_table() {
  return {
      {"aten::median", median_all<false>},
      {"aten::nanmedian", median_all<true>},
      {"aten::median.dim", median_dim<false>},
      {"aten::nanmedian.dim", median_dim<true>},
      {"aten::kthvalue", kthvalue},
      {"aten::mode", mode},
  };
}

}  // namespace torch_tpu::lowering
