// Random numbers. All are functions of uniform 32-bit words from the generator's Philox stream, so
// that they do not depend on layout, schedule or plugin. Word i belongs to element i in logical
// order; an element takes one word, or two where its dtype (F64, wide integers) has more than 32
// random bits.
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/gather_scatter.h"
#include "lowering/reduce.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {
namespace {

DType compute_of(DType dtype) { return Context::compute_dtype(stablehlo::real_dtype(dtype)); }

Value words(Context& ctx, const Dims& dims) {
  return ctx.b.reshape(ctx.random_words(stablehlo::numel(dims)), dims);
}

/// Two words of each element as one of 64 bits.
Value wide_words(Context& ctx, const Dims& dims) {
  Dims pairs = dims;
  pairs.push_back(2);
  return ctx.b.bitcast_convert(words(ctx, pairs), DType::U64);
}

/// The upper `bits` of a word as a multiple of 2^-bits in [0, 1), exact in dtype.
Value fraction(Value word, int bits, DType dtype) {
  const int width = word.dtype() == DType::U64 ? 64 : 32;
  const Value shift = stablehlo::constant_int_like(word, width - bits);
  const Value high = word.builder().binary("shift_right_logical", word, shift);
  return convert(high, dtype) * std::ldexp(1.0, -bits);
}

/// In [0, 1) with as many random bits as a number of this dtype has.
Value unit(Context& ctx, DType dtype, const Dims& dims) {
  switch (dtype) {
    case DType::F64:
      return fraction(wide_words(ctx, dims), 53, DType::F64);
    case DType::F16:
      return fraction(words(ctx, dims), 11, DType::F32);
    case DType::BF16:
      return fraction(words(ctx, dims), 8, DType::F32);
    default:
      return fraction(words(ctx, dims), 24, DType::F32);
  }
}

/// In (0, 1], in a compute dtype: what a logarithm can take.
Value positive_unit(Context& ctx, DType compute, const Dims& dims) {
  if (compute == DType::F64) return 1.0 - unit(ctx, DType::F64, dims);
  // All 32 bits count near 0, where floats are dense: (word + 1/2) / 2^32.
  return convert(words(ctx, dims), DType::F32) * 0x1p-32 + 0x1p-33;
}

/// Standard normal numbers by Box and Muller: pairs of uniform numbers give pairs of normal ones.
Value standard_normal(Context& ctx, DType compute, const Dims& dims) {
  const int64_t count = stablehlo::numel(dims), half = (count + 1) / 2;
  const Value radius = sqrt(-2.0 * log(positive_unit(ctx, compute, {half})));
  const Value angle = unit(ctx, compute, {half}) * (2 * std::numbers::pi);
  const Values both{radius * cos(angle), radius * sin(angle)};
  return ctx.b.reshape(slice_dim(ctx.b.concatenate(both, 0), 0, 0, count), dims);
}

/// A complex result from real numbers with one more dimension of 2; other results as they are.
Dims real_dims(const Type& out) {
  Dims dims = out.dims;
  if (is_complex(out.dtype)) dims.push_back(2);
  return dims;
}

Value from_real(Value x, const Type& out) {
  if (!is_complex(out.dtype)) return x;
  const int64_t last = x.rank() - 1;
  return x.builder().complex(squeeze(slice_dim(x, last, 0, 1), last),
                             squeeze(slice_dim(x, last, 1, 2), last));
}

/// A run-time scalar with the shape of x.
Value scalar_like(const Context& ctx, size_t i, Value x) {
  return broadcast_to(ctx.scalar(i, x.dtype()), x.dims());
}

// ---- continuous distributions; arguments: self, then two parameters

Values uniform(Context& ctx) {
  const Type& out = ctx.out();
  const DType dtype = stablehlo::real_dtype(out.dtype);
  const Value x = unit(ctx, dtype, real_dims(out));
  // The bounds as the dtype can hold them.
  const Value from = cast(broadcast_to(ctx.scalar(1, dtype), x.dims()), x.dtype());
  const Value to = cast(broadcast_to(ctx.scalar(2, dtype), x.dims()), x.dtype());
  const Value scaled = cast(cast(from + x * (to - from), dtype), x.dtype());
  return {from_real(where(ge(scaled, to), from, scaled), out)};  // rounding may reach `to`
}

/// Standard normal numbers for a result; the parts of complex ones have half the variance each.
Value normal_for(Context& ctx, const Type& out) {
  const Value x = standard_normal(ctx, compute_of(out.dtype), real_dims(out));
  return from_real(is_complex(out.dtype) ? x * (1 / std::numbers::sqrt2) : x, out);
}

Values normal(Context& ctx) {
  const Value x = normal_for(ctx, ctx.out());
  if (!is_complex(x.dtype())) return {scalar_like(ctx, 1, x) + scalar_like(ctx, 2, x) * x};
  // PyTorch adds the mean to both parts.
  const Value mean = ctx.scalar(1, stablehlo::real_dtype(x.dtype()));
  return {broadcast_to(ctx.b.complex(mean, mean), x.dims()) + scalar_like(ctx, 2, x) * x};
}

Values log_normal(Context& ctx) { return {exp(normal(ctx)[0])}; }

/// mean + std * normal, where one of both or both are tensors.
Values normal_of(Context& ctx) {
  const Type& out = ctx.out();
  const DType compute = Context::compute_dtype(out.dtype);
  const Value x = normal_for(ctx, out);
  return {broadcast_to(ctx.scalar(0, compute), out.dims) +
          broadcast_to(ctx.scalar(1, compute), out.dims) * x};
}

/// Rate 1: -log(u), and never 0, which would be a division by 0 for many users.
Value standard_exponential(Context& ctx, DType compute, const Dims& dims) {
  const Value x = -log(positive_unit(ctx, compute, dims));
  const double least = compute == DType::F64 ? 0x1p-54 : 0x1p-25;
  return maximum(x, stablehlo::constant_like(x, least));
}

Values exponential(Context& ctx) {
  const Value x = standard_exponential(ctx, compute_of(ctx.out().dtype), ctx.out().dims);
  return {x / scalar_like(ctx, 1, x)};
}

Values cauchy(Context& ctx) {
  const Value u = positive_unit(ctx, compute_of(ctx.out().dtype), ctx.out().dims);
  const Value x = tan((u - 0.5) * std::numbers::pi);
  return {scalar_like(ctx, 1, x) + scalar_like(ctx, 2, x) * x};
}

/// Number of trials up to the first success: 1, 2, ...
Values geometric(Context& ctx) {
  const DType dtype = ctx.out().dtype;
  const Value u =
      positive_unit(ctx, is_float(dtype) ? compute_of(dtype) : DType::F32, ctx.out().dims);
  const Value trials = ceil(log(u) / stablehlo::log1p(-scalar_like(ctx, 1, u)));
  return {maximum(trials, stablehlo::ones_like(trials))};
}

// ---- discrete distributions

/// True with probability p (a float, same shape as dims): exact to 2^-32.
Value true_with(Context& ctx, Value p) {
  const Value scaled = p * 0x1p32;
  const Value certain = ge(p, 1.0);
  const Value limit = convert(where(certain, 0.0, scaled), DType::U32);
  return logical_or(lt(words(ctx, p.dims()), limit), certain);
}

Values bernoulli_scalar(Context& ctx) {
  return {true_with(ctx, broadcast_to(ctx.scalar(1, DType::F32), ctx.out().dims))};
}

Values bernoulli_of(Context& ctx, size_t position) {
  Value p = ctx.tensor(position);
  p = cast(p, is_float(p.dtype()) ? Context::compute_dtype(p.dtype()) : DType::F32);
  return {true_with(ctx, broadcast_to(p, ctx.out().dims))};
}

Values bernoulli_self(Context& ctx) { return bernoulli_of(ctx, 0); }
Values bernoulli_tensor(Context& ctx) { return bernoulli_of(ctx, 1); }

/// Integers from `base` on: `range` many, or all of 64 bits. Arguments: self, base, range, bits.
/// The bits of the words drawn: 32 for a range below 2^32, else 64; 0 is 64 without a range.
Values random_from(Context& ctx) {
  const Dims& dims = ctx.out().dims;
  const int64_t bits = ctx.integer(3);
  const Value base = broadcast_to(ctx.scalar(1, DType::S64), dims);
  if (bits == 0) return {ctx.b.bitcast_convert(wide_words(ctx, dims), DType::S64)};
  const Value word = bits == 64 ? wide_words(ctx, dims) : words(ctx, dims);
  const Value range =
      convert(ctx.b.bitcast_convert(ctx.scalar(2, DType::S64), DType::U64), word.dtype());
  const Value offset = remainder(word, broadcast_to(range, dims));
  return {base + ctx.b.bitcast_convert(convert(offset, DType::U64), DType::S64)};
}

Values native_dropout(Context& ctx) {
  const Value x = ctx.tensor(0);
  if (!ctx.flag_or(2, true)) return {x, ctx.b.constant_int(DType::Pred, 1, x.dims())};
  const DType compute = Context::compute_dtype(x.dtype());
  const Value keep = 1.0 - ctx.scalar(1, DType::F32);
  const Value mask = true_with(ctx, broadcast_to(keep, x.dims()));
  const Value p = 1.0 - ctx.scalar(1, compute);
  const Value scale = where(eq(p, 0.0), 0.0, 1.0 / p);
  return {cast(x, compute) * cast(mask, compute) * scale, mask};
}

Values native_dropout_backward(Context& ctx) {
  const DType compute = Context::compute_dtype(ctx.out().dtype);
  return {cast(ctx.tensor(0), compute) * cast(ctx.tensor(1), compute) * ctx.scalar(2, compute)};
}

/// A random order: 0 .. n - 1 in the lower bits of random words, which are sorted.
Values randperm(Context& ctx) {
  const Dims& dims = ctx.out().dims;
  const int64_t n = stablehlo::numel(dims);
  if (n == 0) return {ctx.b.zeros(ctx.out())};
  const auto low_bits = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n)) - 1);
  const Value random = ctx.b.bitcast_convert(wide_words(ctx, dims), DType::S64);
  const Value mask = stablehlo::constant_int_like(random, low_bits);
  const Value high = stablehlo::logical_and(random, stablehlo::logical_not(mask));
  const Value word = stablehlo::logical_or(high, ctx.b.iota({DType::S64, dims}, 0));
  const Value sorted =
      ctx.b.sort(Values{word}, 0, /*stable=*/false,
                 [](Builder&, std::span<const Value> v) -> Values { return {lt(v[0], v[1])}; })[0];
  return {stablehlo::logical_and(sorted, mask)};
}

// ---- multinomial

/// What is wrong with probabilities [rows, n]: 0 nothing, 1 a negative or NaN one, 2 an infinite
/// one, 3 a row that sums to 0.
Value problem(Value p, Value sums) {
  Builder& b = p.builder();
  const Value negative = logical_not(stablehlo::reduce_and(ge(p, 0.0), {0, 1}));
  const Value infinite = logical_not(stablehlo::reduce_and(b.is_finite(p), {0, 1}));
  const Value empty = stablehlo::reduce_or(le(sums, 0.0), {0});
  const auto code = [&](int64_t value) { return b.constant_int(DType::S64, value); };
  return b.select(negative, code(1),
                  b.select(infinite, code(2), b.select(empty, code(3), code(0))));
}

/// Arguments: probabilities [n] or [rows, n], count, replacement. Results: samples and problem().
Values multinomial(Context& ctx) {
  Builder& b = ctx.b;
  const Value given = ctx.tensor(0);
  const DType compute = Context::compute_dtype(given.dtype());
  const int64_t n = given.dims().back(), rows = given.numel() / n;
  const Value p = b.reshape(cast(given, compute), {rows, n});
  const int64_t count = ctx.integer(1);
  const Value sums = stablehlo::reduce_sum(p, {1});
  Value samples;
  if (ctx.flag(2) && count > 1) {
    const Value upto = prefix_sum(p);
    const Value total = slice_dim(upto, 1, n - 1, n);
    const Value point = unit(ctx, compute, {rows, count}) * total;
    samples = search_sorted(upto, point, /*right=*/true);
    // Rounding may reach the total: then it is the last one that has a probability.
    const Value index = b.iota({samples.dtype(), {rows, n}}, 1);
    const Value possible = where(gt(p, 0.0), index, stablehlo::zeros_like(index));
    samples =
        minimum(samples, broadcast_to(stablehlo::reduce_max(possible, {1}, true), {rows, count}));
  } else {
    // The greatest p / exponential is i with probability p[i]; without replacement the next one
    // follows.
    const Value race = p / standard_exponential(ctx, compute, {rows, n});
    samples = count == 1 ? position_of(race, stablehlo::reduce_max(race, {1}, true), 1)
                         : slice_dim(sorted_positions(race, 1, /*descending=*/true), 1, 0, count);
  }
  return {b.reshape(samples, ctx.out().dims), problem(p, sums)};
}

}  // namespace

Table random_table() {
  return {
      {.name = "aten::uniform_", .lower = uniform, .overwrites = true},
      {.name = "aten::normal_", .lower = normal, .overwrites = true},
      {.name = "aten::log_normal_", .lower = log_normal, .overwrites = true},
      {.name = "aten::exponential_", .lower = exponential, .overwrites = true},
      {.name = "aten::cauchy_", .lower = cauchy, .overwrites = true},
      {.name = "aten::geometric_", .lower = geometric, .overwrites = true},
      {"aten::normal.Tensor_float", normal_of},
      {"aten::normal.float_Tensor", normal_of},
      {"aten::normal.Tensor_Tensor", normal_of},
      {.name = "aten::bernoulli_.float", .lower = bernoulli_scalar, .overwrites = true},
      {"aten::bernoulli", bernoulli_self},
      {.name = "aten::bernoulli.Tensor", .lower = bernoulli_tensor, .overwrites = true},
      {.name = "torch_tpu::random_from_", .lower = random_from, .overwrites = true},
      {.name = "torch_tpu::randperm_", .lower = randperm, .overwrites = true},
      {"torch_tpu::multinomial_checked", multinomial},
      {"aten::native_dropout", native_dropout},
      {"aten::native_dropout_backward", native_dropout_backward},
  };
}

}  // namespace torch_tpu::lowering
