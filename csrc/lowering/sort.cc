#include "lowering/sort.h"

#include <bit>
#include <limits>

#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/gather_scatter.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {
namespace {

constexpr int kHalf = 32;

Value shift(Value x, std::string_view op, int bits) {
  return x.builder().binary(op, x, stablehlo::constant_int_like(x, bits));
}

/// Integers that compare as the elements of x do: S64 for a dtype of 64 bits, else S64 values of 32
/// bits.
Value sort_key(Value x) {
  Builder& b = x.builder();
  const DType dtype = x.dtype();
  if (dtype == DType::U64) {
    const Value bits = b.bitcast_convert(x, DType::S64);
    return stablehlo::logical_xor(bits, b.lowest(DType::S64, x.dims()));
  }
  if (dtype == DType::U32) return convert(x, DType::S64) - 0x1p31;
  if (!is_float(dtype)) return convert(x, DType::S64);
  if (dtype != DType::F64) x = convert(x, DType::F32);
  // One NaN and one zero; the bits of negative numbers have to be turned around.
  x = where(stablehlo::is_nan(x), std::numeric_limits<double>::quiet_NaN(), x);
  const Value bits = b.bitcast_convert(x, dtype == DType::F64 ? DType::S64 : DType::S32);
  const Value turned = stablehlo::logical_xor(bits, b.highest(bits.dtype(), x.dims()));
  const Value ordered = where(lt(bits, 0.0), turned, bits);
  const Value is_zero = eq(bits, b.lowest(bits.dtype(), x.dims()));  // -0
  return convert(where(is_zero, stablehlo::zeros_like(bits), ordered), DType::S64);
}

/// Positions of sorted keys of 32 bits. XLA sorts one operand of integers much faster than two
/// operands with a comparator of their own: so key and position travel in one word, which makes it
/// stable too.
Value sort_half(Value key, int64_t dim) {
  Builder& b = key.builder();
  const Value position = stablehlo::iota_like(key, dim, DType::S64);
  const Value word = stablehlo::logical_or(shift(key, "shift_left", kHalf), position);
  const Value sorted =
      b.sort(Values{word}, dim, /*stable=*/false,
             [](Builder&, std::span<const Value> v) -> Values { return {lt(v[0], v[1])}; })[0];
  const Value low = stablehlo::constant_int_like(sorted, 0xFFFFFFFF);
  return narrow_index(stablehlo::logical_and(sorted, low), key.dim(dim));
}

}  // namespace

Value sorted_positions(Value x, int64_t dim, bool descending) {
  Value key = sort_key(x);
  if (descending) key = stablehlo::logical_not(key);
  if (stablehlo::byte_size(x.dtype()) <= 4) return sort_half(key, dim);
  // The lower half first, as a signed number, then the upper half of what that gave.
  const Value low = stablehlo::logical_xor(key, stablehlo::constant_int_like(key, 0x80000000));
  const Value by_low = sort_half(low, dim);
  const Value high = shift(gather_along(key, dim, by_low), "shift_right_arithmetic", kHalf);
  return gather_along(by_low, dim, sort_half(high, dim));
}

Sorted sort_along(Value x, int64_t dim, bool descending) {
  const Value positions = sorted_positions(x, dim, descending);
  return {gather_along(x, dim, positions), positions};
}

Value search_sorted(Value sequence, Value values, bool right, Value sorter) {
  Builder& b = sequence.builder();
  const int64_t n = sequence.dims().back();
  const DType dtype = position_dtype(n);
  const Value zero = b.zeros({dtype, values.dims()});
  if (n == 0 || values.numel() == 0) return zero;
  const Value one = stablehlo::constant_int_like(zero, 1);
  const Value last = stablehlo::constant_int_like(zero, n - 1);
  const auto read = [](Value from, Value position) {
    return from.rank() == 1 ? take(from, 0, position)
                            : gather_along(from, from.rank() - 1, position);
  };
  // Bisection as PyTorch's, which also decides where NaN goes: [start, end) halves at each step.
  const int64_t steps = std::bit_width(static_cast<uint64_t>(n));
  const auto step = [&](Builder&, std::span<const Value> v) -> Values {
    const Value start = v[1], end = v[2];
    const Value middle = start + (end - start) / stablehlo::constant_int_like(zero, 2);
    Value position = minimum(middle, last);
    if (sorter) position = read(sorter, position);
    const Value element = read(sequence, position);
    const Value found = right ? gt(element, values) : ge(element, values);
    const Value open = lt(start, end);
    return {v[0] + 1.0, where(logical_and(open, logical_not(found)), middle + one, start),
            where(logical_and(open, found), middle, end)};
  };
  const auto more = [&](Builder&, std::span<const Value> v) -> Values {
    return {lt(v[0], static_cast<double>(steps))};
  };
  const Values init{b.zeros({DType::S32, {}}), zero, stablehlo::constant_int_like(zero, n)};
  return b.while_loop(init, more, step)[1];
}

namespace {

Value at_least_1d(Value x) { return x.rank() == 0 ? reshape(x, {1}) : x; }

Values finish_sort(Context& ctx, Value values, Value indices) {
  return {reshape(values, ctx.out(0).dims), reshape(indices, ctx.out(1).dims)};
}

Values sort(Context& ctx) {
  const Value x = at_least_1d(ctx.tensor(0));
  const int64_t dim = stablehlo::wrap_dim(ctx.integer_or(2, -1), x.rank());
  const Sorted sorted = sort_along(x, dim, ctx.flag_or(3, false));
  return finish_sort(ctx, sorted.values, sorted.positions);
}

/// Can F32 hold every value of this dtype?
bool fits_f32(DType dtype) {
  const bool is_wide = dtype == DType::S32 || dtype == DType::U32;
  return stablehlo::byte_size(dtype) <= 4 && !is_wide;
}

/// The last dimension in the place of dim, or back.
Value exchange_last(Value x, int64_t dim) {
  Dims order = stablehlo::all_dims(x);
  std::swap(order[dim], order.back());
  return transpose(x, order);
}

/// The k greatest (or smallest) in order, by XLA's own operation, which knows F32 best.
Values top_f32(Value x, int64_t k, int64_t dim, bool largest) {
  Value key = convert(x, DType::F32);
  // The total order has a least and a greatest NaN: there shall be only the greatest.
  key = where(stablehlo::is_nan(key), std::numeric_limits<double>::quiet_NaN(), key);
  if (!largest) key = -key;
  const Values top = x.builder().top_k(exchange_last(key, dim), k);
  const Value values = largest ? top[0] : -top[0];
  return {cast(exchange_last(values, dim), x.dtype()), exchange_last(top[1], dim)};
}

Values topk(Context& ctx) {
  const Value x = at_least_1d(ctx.tensor(0));
  const int64_t k = ctx.integer(1);
  const int64_t dim = stablehlo::wrap_dim(ctx.integer_or(2, -1), x.rank());
  const bool largest = ctx.flag_or(3, true);
  if (k == 0 || x.numel() == 0) return {ctx.b.zeros(ctx.out(0)), ctx.b.zeros(ctx.out(1))};
  if (fits_f32(x.dtype())) {
    const Values top = top_f32(x, k, dim, largest);
    return finish_sort(ctx, top[0], top[1]);
  }
  const Value positions = slice_dim(sorted_positions(x, dim, largest), dim, 0, k);
  return finish_sort(ctx, gather_along(x, dim, positions), positions);
}

/// searchsorted and bucketize, whose arguments are in another order.
Values search(Context& ctx, size_t sequence_at, size_t values_at, bool right, Value sorter) {
  const DType dtype = ctx.common();
  const Value sequence = cast(ctx.tensor(sequence_at), dtype);
  const Value values = ctx.scalar(values_at, dtype);
  return {search_sorted(sequence, values, right, sorter)};
}

Values searchsorted(Context& ctx) {
  const bool right = ctx.flag_or(3, false) || ctx.text_or(4, "") == "right";
  Value sorter;
  if (ctx.has(5)) {
    const int64_t n = ctx.tensor(5).dims().back();
    sorter =
        ctx.checked_index(ctx.tensor(5), n, ctx.tensor(5).rank() - 1, /*allow_negative=*/false);
  }
  return search(ctx, 0, 1, right, sorter);
}

Values bucketize(Context& ctx) { return search(ctx, 1, 0, ctx.flag_or(3, false), {}); }

// ---- isin

Value isin(Context& ctx) {
  const DType dtype = ctx.common();
  const Dims& dims = ctx.out().dims;
  const Value elements = broadcast_to(ctx.scalar(0, dtype), dims);
  const Value tests = flatten(ctx.scalar(1, dtype));
  const int64_t n = tests.dim(0);
  if (n == 0 || elements.numel() == 0) return ctx.b.zeros({DType::Pred, dims});
  // Few: compare with every one. Many: look each element up in the sorted ones.
  constexpr int64_t few = 32;
  if (n <= few || is_complex(dtype)) {
    return stablehlo::reduce_or(eq(unsqueeze(elements, -1), tests), {elements.rank()});
  }
  const Value sorted = sort_along(tests, 0, /*descending=*/false).values;
  const Value position = search_sorted(sorted, elements, /*right=*/false);
  const Value inside = minimum(position, stablehlo::constant_int_like(position, n - 1));
  return eq(take(sorted, 0, inside), elements);
}

Values isin_or_not(Context& ctx) {
  const Value found = isin(ctx);
  return {ctx.flag_or(3, false) ? logical_not(found) : found};
}

}  // namespace

Table sort_table() {
  return {
      {"aten::sort.stable", sort},
      {"aten::topk", topk},
      {.name = "aten::searchsorted.Tensor", .lower = searchsorted, .promoted_args = {0, 1}},
      {.name = "aten::searchsorted.Scalar", .lower = searchsorted, .promoted_args = {0, 1}},
      {.name = "aten::bucketize.Tensor", .lower = bucketize, .promoted_args = {0, 1}},
      {.name = "aten::bucketize.Scalar", .lower = bucketize, .promoted_args = {0, 1}},
      {.name = "aten::isin.Tensor_Tensor", .lower = isin_or_not, .promoted_args = {0, 1}},
      {.name = "aten::isin.Tensor_Scalar", .lower = isin_or_not, .promoted_args = {0, 1}},
      {.name = "aten::isin.Scalar_Tensor", .lower = isin_or_not, .promoted_args = {0, 1}},
  };
}

}  // namespace torch_tpu::lowering
