// Random numbers that take an unknown number of draws each: Poisson, binomial, gamma, Dirichlet.
// A loop runs until every element has been accepted. As a call takes a known part of the
// generator's stream, that part is the key of a Philox stream of the call's own, from which each
// round of the loop takes its words.
//
// Poisson (rate below 10) and binomial (mean below 10): inversion by sequential search with one
// number of 53 bits. Above: transformed rejection with squeeze (Hormann, "The transformed rejection
// method for generating Poisson random variables", 1993, and "The generation of binomial random
// variates", 1993). Gamma: Marsaglia and Tsang, "A simple method for generating gamma variables",
// 2000. Counts are drawn in F64: their logarithms are differences of large numbers.
#include <cmath>
#include <numbers>

#include "lowering/families.h"
#include "lowering/philox.h"
#include "lowering/pointwise.h"
#include "lowering/reduce.h"
#include "lowering/special.h"

namespace torch_tpu::lowering {
namespace {

constexpr double kFewEvents = 10.0;     // below it, a search takes fewer steps than rejection
constexpr int64_t kMostSteps = 1000;    // of a search; the probability of more is below 2^-53
constexpr int64_t kMostRounds = 10000;  // of a loop: a bound for arguments without a distribution

/// A stream of random words that only this call uses.
class Stream {
 public:
  explicit Stream(const Context& ctx)
      : b_(ctx.b), key_(b_.bitcast_convert(ctx.random_words(2), DType::U64)) {}

  /// Numbers in (0, 1), `many` for each element of a 1-D array, those of the given round.
  Values uniform(Value round, int64_t many, int64_t count, DType dtype) const {
    const int64_t width = dtype == DType::F64 ? 2 : 1, words = many * count * width;
    const Value blocks = b_.constant_int(DType::U64, (words + 3) / 4);
    const Value drawn = philox_words(key_, convert(round, DType::U64) * blocks, 0, words);
    Values out;
    for (int64_t i = 0; i < many; ++i) {
      out.push_back(unit(slice_dim(drawn, 0, i * count * width, (i + 1) * count * width), dtype));
    }
    return out;
  }

 private:
  Value unit(Value words, DType dtype) const {
    if (dtype != DType::F64) return convert(words, DType::F32) * 0x1p-32 + 0x1p-33;
    const Value wide = b_.bitcast_convert(b_.reshape(words, {words.dim(0) / 2, 2}), DType::U64);
    const Value shift = stablehlo::constant_int_like(wide, 11);
    return convert(b_.binary("shift_right_logical", wide, shift), DType::F64) * 0x1p-53 + 0x1p-54;
  }

  Builder& b_;
  Value key_;
};

struct Draw {
  Value value, accepted;
};

/// Repeats `draw` until each element of `wanted` has been accepted; 0 elsewhere.
Value until_accepted(Value wanted, DType dtype, const std::function<Draw(Value round)>& draw) {
  Builder& b = wanted.builder();
  // {round, values, still wanted}
  const Values v = b.while_loop(
      Values{b.constant_int(DType::S32, 1), b.zeros({dtype, wanted.dims()}), wanted},
      [](Builder&, std::span<const Value> v) -> Values {
        return {logical_and(lt(v[0], static_cast<double>(kMostRounds)), any(v[2]))};
      },
      [&](Builder&, std::span<const Value> v) -> Values {
        const Draw drawn = draw(v[0]);
        const Value take = logical_and(v[2], drawn.accepted);
        return {v[0] + 1.0, where(take, drawn.value, v[1]),
                logical_and(v[2], logical_not(drawn.accepted))};
      });
  return v[1];
}

/// The least k at which the sum of probabilities reaches u; `first` is that of 0, and `next` makes
/// the probability of k from that of k - 1.
Value search(Value u, Value first, Value wanted,
             const std::function<Value(Value probability, Value k)>& next) {
  const auto more = [&](Value sum) { return logical_and(wanted, gt(u, sum)); };
  // {k, probability, sum}
  const Values v = u.builder().while_loop(
      Values{zeros_like(u), first, first},
      [&](Builder&, std::span<const Value> v) -> Values { return {any(more(v[2]))}; },
      [&](Builder&, std::span<const Value> v) -> Values {
        const Value going_on = logical_and(more(v[2]), lt(v[0], static_cast<double>(kMostSteps)));
        const Value k = where(going_on, v[0] + 1.0, v[0]);
        const Value probability = where(going_on, next(v[1], k), v[1]);
        const Value sum = v[2] + probability;
        return {k, probability, where(going_on, sum, 1.0)};
      });
  return v[0];
}

// ---- Poisson

Draw poisson_rejection(const Stream& stream, Value round, Value rate) {
  const Values u = stream.uniform(round, 2, rate.numel(), DType::F64);
  const Value root = sqrt(rate), b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const Value inverse_alpha = 1.1239 + 1.1328 / (b - 3.4);
  const Value centred = u[0] - 0.5, margin = 0.5 - abs(centred);
  const Value k = floor((2.0 * a / margin + b) * centred + rate + 0.43);
  const Value inside = logical_and(ge(margin, 0.07), le(u[1], 0.9277 - 3.6224 / (b - 2.0)));
  const Value outside = logical_or(lt(k, 0.0), logical_and(lt(margin, 0.013), gt(u[1], margin)));
  const Value left = log(u[1]) + log(inverse_alpha) - log(a / (margin * margin) + b);
  const Value right = k * log(rate) - rate - lgamma(k + 1.0);
  return {k, logical_or(inside, logical_and(logical_not(outside), le(left, right)))};
}

/// Arguments: self.
Values poisson(Context& ctx) {
  const Type& out = ctx.out();
  if (out.numel() == 0) return {ctx.b.zeros(out)};
  const Value rate = flatten(cast(ctx.tensor(0), DType::F64));
  const Stream stream(ctx);
  const Value few = lt(rate, kFewEvents);
  const Value small = where(few, rate, 1.0), large = where(few, kFewEvents, rate);
  const Value u = stream.uniform(ctx.b.constant_int(DType::S32, 0), 1, rate.numel(), DType::F64)[0];
  const Value searched =
      search(u, exp(-small), few, [&](Value p, Value k) { return p * small / k; });
  const Value wanted = logical_and(logical_not(few), ctx.b.is_finite(rate));
  const Value accepted = until_accepted(
      wanted, DType::F64, [&](Value round) { return poisson_rejection(stream, round, large); });
  return {ctx.b.reshape(where(few, searched, where(wanted, accepted, rate)), out.dims)};
}

// ---- binomial

Draw binomial_rejection(const Stream& stream, Value round, Value n, Value p) {
  const Values u = stream.uniform(round, 2, n.numel(), DType::F64);
  const Value deviation = sqrt(n * p * (1.0 - p)), b = 1.15 + 2.53 * deviation;
  const Value a = -0.0873 + 0.0248 * b + 0.01 * p;
  const Value alpha = (2.83 + 5.1 / b) * deviation, mode = floor((n + 1.0) * p);
  const Value centred = u[0] - 0.5, margin = 0.5 - abs(centred);
  const Value k = floor((2.0 * a / margin + b) * centred + n * p + 0.5);
  const Value possible = logical_and(ge(k, 0.0), le(k, n));
  const Value inside = logical_and(ge(margin, 0.07), le(u[1], 0.92 - 4.2 / b));
  const Value left = log(u[1] * alpha / (a / (margin * margin) + b));
  const auto ways = [&](Value m) { return -lgamma(m + 1.0) - lgamma(n - m + 1.0); };
  const Value right = ways(k) - ways(mode) + (k - mode) * log(p / (1.0 - p));
  return {k, logical_and(possible, logical_or(inside, le(left, right)))};
}

/// Arguments: count, prob.
Values binomial(Context& ctx) {
  const Type& out = ctx.out();
  if (out.numel() == 0) return {ctx.b.zeros(out)};
  const Value given = flatten(broadcast_to(cast(ctx.tensor(0), DType::F64), out.dims));
  const Value prob = flatten(broadcast_to(cast(ctx.tensor(1), DType::F64), out.dims));
  const Stream stream(ctx);
  // Of the two outcomes the rarer one is counted.
  const Value flipped = gt(prob, 0.5), p = where(flipped, 1.0 - prob, prob);
  const Value drawn = logical_and(gt(given, 0.0), logical_and(gt(prob, 0.0), lt(prob, 1.0)));
  const Value few = logical_and(drawn, lt(given * p, kFewEvents));
  const Value many = logical_and(drawn, logical_not(few));
  const Value odds = where(few, p / (1.0 - p), 0.5);
  const Value none = where(few, exp(given * stablehlo::log1p(-p)), 1.0);
  const Value u = stream.uniform(ctx.b.constant_int(DType::S32, 0), 1, p.numel(), DType::F64)[0];
  const Value searched =
      search(u, none, few, [&](Value q, Value k) { return q * odds * (given - k + 1.0) / k; });
  const Value n = where(many, given, 40.0), rare = where(many, p, 0.5);
  const Value accepted = until_accepted(
      many, DType::F64, [&](Value round) { return binomial_rejection(stream, round, n, rare); });
  const Value rarer = where(few, minimum(searched, given), accepted);
  const Value counted = where(flipped, given - rarer, rarer);
  // Without a draw: nothing of no trials or of probability 0, all of probability 1, else NaN.
  const Value nothing = logical_or(le(given, 0.0), le(prob, 0.0));
  const Value certain = where(nothing, 0.0, where(ge(prob, 1.0), given, prob));
  return {ctx.b.reshape(where(drawn, counted, certain), out.dims)};
}

// ---- gamma

/// Standard gamma numbers of a 1-D alpha, in its dtype.
Value standard_gamma(Context& ctx, Value alpha) {
  const DType dtype = alpha.dtype();
  const int64_t count = alpha.numel();
  const Stream stream(ctx);
  // Below 1, gamma(alpha + 1) * u^(1 / alpha).
  const Value boosted = lt(alpha, 1.0);
  const Value shape = where(boosted, alpha + 1.0, alpha);
  const Value d = shape - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
  const Value drawn = until_accepted(gt(d, 0.0), dtype, [&](Value round) -> Draw {
    const Values u = stream.uniform(round, 3, count, dtype);
    const Value x = sqrt(-2.0 * log(u[0])) * cos(u[1] * (2 * std::numbers::pi));
    const Value root = 1.0 + c * x, v = root * root * root;
    const Value bound = 0.5 * x * x + d - d * v + d * log(where(gt(root, 0.0), v, 1.0));
    return {d * v, logical_and(gt(root, 0.0), lt(log(u[2]), bound))};
  });
  const Value u = stream.uniform(ctx.b.constant_int(DType::S32, 0), 1, count, dtype)[0];
  const Value value = drawn * where(boosted, pow(u, 1.0 / alpha), 1.0);
  return where(is_nan(alpha), alpha, where(eq(alpha, 0.0), 0.0, value));
}

/// The least normal number.
double least(DType dtype) {
  return dtype == DType::F64 ? 0x1p-1022 : dtype == DType::F16 ? 0x1p-14 : 0x1p-126;
}

double greatest_below_one(DType dtype) {
  return 1.0 - (dtype == DType::F64    ? 0x1p-53
                : dtype == DType::F16  ? 0x1p-11
                : dtype == DType::BF16 ? 0x1p-8
                                       : 0x1p-24);
}

/// Arguments: self.
Values gamma(Context& ctx) {
  const Type& out = ctx.out();
  if (out.numel() == 0) return {ctx.b.zeros(out)};
  const Value x = standard_gamma(ctx, flatten(widen(ctx.tensor(0))));
  const Value bounded = maximum(x, stablehlo::constant_like(x, least(out.dtype)));
  return {ctx.b.reshape(bounded, out.dims)};
}

/// Arguments: self. In F64, as the smallest shares of small alphas leave the range of F32.
Values dirichlet(Context& ctx) {
  const Type& out = ctx.out();
  if (out.numel() == 0) return {ctx.b.zeros(out)};
  const Value x =
      ctx.b.reshape(standard_gamma(ctx, flatten(cast(ctx.tensor(0), DType::F64))), out.dims);
  const int64_t last = std::max<int64_t>(x.rank() - 1, 0);
  const Value total = x.rank() == 0 ? x : stablehlo::reduce_sum(x, {last}, /*keepdim=*/true);
  return {ctx.b.clamp(ctx.b.constant(DType::F64, least(out.dtype)), x / total,
                      ctx.b.constant(DType::F64, greatest_below_one(out.dtype)))};
}

}  // namespace

Table rejection_table() {
  return {
      {"aten::poisson", poisson},
      {"aten::binomial", binomial},
      {"aten::_standard_gamma", gamma},
      {"aten::_sample_dirichlet", dirichlet},
  };
}

}  // namespace torch_tpu::lowering
