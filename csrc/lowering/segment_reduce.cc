// Reductions of consecutive segments. The torch side brings everything to data [batch, n, inner],
// offsets [batch, segments + 1] and results [batch, segments, inner].
#include <limits>

#include "lowering/families.h"
#include "lowering/gather_scatter.h"
#include "lowering/reduce.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {
namespace {

struct Segments {
  int64_t batch, segments;
  Value row;    // [batch * n]: in the flat result; -1 of no segment
  Value sizes;  // [batch * segments, 1], S64
};

Segments segments_of(Value data, Value offsets) {
  Builder& b = data.builder();
  const int64_t batch = data.dim(0), n = data.dim(1), segments = offsets.dim(1) - 1;
  const Value place = b.iota({DType::S64, {batch, n}}, 1);
  const Value segment = cast(search_sorted(offsets, place, /*right=*/true), DType::S64) - 1.0;
  const Value inside = logical_and(ge(segment, 0.0), lt(segment, static_cast<double>(segments)));
  const Value row = b.iota({DType::S64, {batch, n}}, 0) * static_cast<double>(segments) + segment;
  const Value sizes = slice_dim(offsets, 1, 1, segments + 1) - slice_dim(offsets, 1, 0, segments);
  return {batch, segments, b.reshape(where(inside, row, -1.0), {batch * n}),
          b.reshape(sizes, {batch * segments, 1})};
}

Combine combine_of(std::string_view reduce) {
  if (reduce == "max") return Combine::Max;
  if (reduce == "min") return Combine::Min;
  return reduce == "prod" ? Combine::Mul : Combine::Add;
}

Value flat(Value x) { return x.builder().reshape(x, {x.dim(0) * x.dim(1), x.dim(2)}); }

/// The combination of each segment's rows of x [batch * n, inner], from a first value on.
Value combined(const Segments& s, Value x, Value first, Combine combine) {
  const Value start = broadcast_to(first, {s.batch * s.segments, x.dim(1)});
  return scatter_slices(start, 0, s.row, x, combine);
}

/// What each row's segment has in x [batch * segments, inner]; `otherwise` for rows of none.
Value spread(const Segments& s, Value x, double otherwise) {
  const Value row = maximum(s.row, stablehlo::zeros_like(s.row));
  const Value taken = take(x, 0, row);
  return where(unsqueeze(ge(s.row, 0.0), 1), taken, otherwise);
}

/// The value before the first element: argument `i`, or the reduction's own.
Value first_value(const Context& ctx, size_t i, Combine combine, DType dtype) {
  if (ctx.has(i)) return ctx.scalar(i, dtype);
  return combine == Combine::Max   ? ctx.b.constant(dtype, -std::numeric_limits<double>::infinity())
         : combine == Combine::Min ? ctx.b.constant(dtype, std::numeric_limits<double>::infinity())
                                   : combine_identity(ctx.b, combine, dtype);
}

/// Arguments: data, offsets, reduce, initial.
Values segment_reduce(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Value data = widen(ctx.tensor(0));
  const Segments s = segments_of(data, cast(ctx.tensor(1), DType::S64));
  const Combine combine = combine_of(ctx.text(2));
  Value out = combined(s, flat(data), first_value(ctx, 3, combine, data.dtype()), combine);
  if (ctx.text(2) == "mean") {
    // With an initial value that is the mean of no elements.
    const Value size = broadcast_to(cast(s.sizes, data.dtype()), out.dims());
    out = where(eq(size, 0.0), ctx.has(3) ? out : out / size, out / size);
  }
  return {ctx.b.reshape(out, ctx.out().dims)};
}

/// The product of the other elements of the segment, where an element is 0 or NaN.
Value others_product(const Segments& s, Value x, Value first) {
  Builder& b = x.builder();
  const DType dtype = x.dtype();
  const Value zero = b.zeros({dtype, {}}), one = b.constant(dtype, 1.0);
  const Value is_zero = eq(x, 0.0), nan = is_nan(x);
  const auto number_of = [&](Value which) {
    return spread(s, combined(s, cast(which, dtype), zero, Combine::Add), 0.0);
  };
  const Value zeros = number_of(is_zero) - cast(is_zero, dtype);  // among the others
  const Value nans = number_of(nan) - cast(nan, dtype);
  const Value plain = where(logical_or(is_zero, nan), one, x);
  const Value product = spread(s, combined(s, plain, first, Combine::Mul), 1.0);
  const Value value = product * where(gt(zeros, 0.0), 0.0, stablehlo::ones_like(product));
  return where(gt(nans, 0.0), std::numeric_limits<double>::quiet_NaN(), value);
}

/// The gradient of `out` goes to the elements that are equal to it, or are NaN, in equal shares.
Value extremum_gradient(const Segments& s, Value grad, Value out, Value x) {
  const Value chosen = logical_or(eq(x, spread(s, out, 0.0)), is_nan(x));
  const Value share = cast(chosen, x.dtype());
  const Value count =
      spread(s, combined(s, share, x.builder().zeros({x.dtype(), {}}), Combine::Add), 1.0);
  return where(chosen, spread(s, grad, 0.0) / count, 0.0);
}

/// Arguments: grad, output, data, offsets, reduce, initial.
Values segment_reduce_backward(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const std::string_view reduce = ctx.text(4);
  const Value x = widen(ctx.tensor(2));
  const Segments s = segments_of(x, cast(ctx.tensor(3), DType::S64));
  if (s.segments == 0) return {ctx.b.zeros(ctx.out())};
  const Value data = flat(x), grad = flat(widen(ctx.tensor(0))), out = flat(widen(ctx.tensor(1)));
  Value result;
  if (reduce == "sum") {
    result = spread(s, grad, 0.0);
  } else if (reduce == "mean") {
    result = spread(s, grad / broadcast_to(cast(s.sizes, x.dtype()), grad.dims()), 0.0);
  } else if (reduce == "prod") {
    const Value special = logical_or(eq(data, 0.0), is_nan(data));
    const Value first = first_value(ctx, 5, Combine::Mul, x.dtype());
    result = where(special, spread(s, grad, 0.0) * others_product(s, data, first),
                   spread(s, grad * out, 0.0) / data);
  } else {
    result = extremum_gradient(s, grad, out, data);
  }
  return {ctx.b.reshape(result, ctx.out().dims)};
}

}  // namespace

Table segment_reduce_table() {
  return {
      {"torch_tpu::segment_reduce", segment_reduce},
      {"torch_tpu::segment_reduce_backward", segment_reduce_backward},
  };
}

}  // namespace torch_tpu::lowering
