// Scaled dot product attention, softmax(q k^T * scale + mask) v, as one program forward and one
// backward.
//
// query [B, H, L, E], key [B, K, S, E], value [B, K, S, V]; each of the K heads of key and value
// serves H / K heads of the query. Scores and probabilities are at least f32. A row in which
// everything is masked gives zeros, and zero gradients.
#include <algorithm>
#include <cmath>

#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/philox.h"

namespace torch_tpu::lowering {
namespace {

struct Attention {
  Value query, key, value, mask;  // mask: null, Pred (true takes part) or added to the scores
  Value scale;                    // 0-d, of the scores' dtype
  bool causal;

  int64_t heads() const { return query.dim(1); }
  int64_t key_heads() const { return key.dim(1); }
  Dims score_dims() const { return {query.dim(0), query.dim(1), query.dim(2), key.dim(2)}; }
};

/// The heads that share a key head as rows of one matrix: [B, H, L, X] -> [B, K, H / K * L, X].
Value group_rows(const Attention& a, Value x) {
  const int64_t group = a.heads() / std::max<int64_t>(a.key_heads(), 1);
  return reshape(x, {x.dim(0), a.key_heads(), group * x.dim(2), x.dim(3)});
}

Value ungroup_rows(const Attention& a, Value x) {
  return reshape(x, {x.dim(0), a.heads(), a.query.dim(2), x.dim(3)});
}

/// [B, K, R, X] with [B, K, ...]: contracts the given dimensions.
Value contract(Context& ctx, Value a, Value b, int64_t a_dim, int64_t b_dim) {
  return ctx.b.dot_general(a, b, {{0, 1}, {0, 1}, {a_dim}, {b_dim}}, ctx.precision(a.dtype()),
                           Context::compute_dtype(a.dtype()));
}

/// Arguments first ... : query, key, value, mask.
Attention attention_args(Context& ctx, size_t first, size_t causal, size_t scale) {
  Attention a;
  a.query = ctx.tensor(first);
  a.key = ctx.tensor(first + 1);
  a.value = ctx.tensor(first + 2);
  if (ctx.has(first + 3)) a.mask = ctx.tensor(first + 3);
  a.causal = ctx.flag(causal);
  const double usual = 1.0 / std::sqrt(static_cast<double>(std::max<int64_t>(a.query.dim(3), 1)));
  a.scale = ctx.scalar_or(scale, Context::compute_dtype(a.query.dtype()), usual);
  return a;
}

/// Masked scores [B, H, L, S].
Value scores(Context& ctx, const Attention& a) {
  Value s = ungroup_rows(a, contract(ctx, group_rows(a, a.query), a.key, 3, 3)) * a.scale;
  const Value excluded = ctx.b.lowest(s.dtype());
  if (a.causal) {
    s = where(ge(iota_like(s, 2, DType::S32), iota_like(s, 3, DType::S32)), s, excluded);
  }
  if (!a.mask) return s;
  if (a.mask.dtype() == DType::Pred) return where(a.mask, s, excluded);
  return s + convert(a.mask, s.dtype());
}

/// Softmax over the last dimension as numerator and (kept) denominator; the denominator is 0 only
/// in rows where everything is masked.
struct Softmax {
  Value numerator, denominator, maximum;
};

Softmax softmax(Value s) {
  const Value largest = reduce_max(s, {3}, true);
  const Value none = eq(largest, s.builder().lowest(s.dtype()));
  const Value maximum = where(none, zeros_like(largest), largest);
  const Value numerator = exp(s - maximum);
  return {numerator, reduce_sum(numerator, {3}, true), maximum};
}

/// x / denominator, 0 where that is 0.
Value normalized(Value x, Value denominator) {
  const Value empty = eq(denominator, zeros_like(denominator));
  return where(empty, zeros_like(x), x / where(empty, ones_like(denominator), denominator));
}

/// Where the generator stood: what the backward pass needs to draw the same numbers again.
struct RandomState {
  Value seed, offset;  // 0-d, U64
};

/// The part of the generator's stream for `count` words, as Context::random_words takes it.
RandomState reserve_random(Context& ctx, int64_t count) {
  ProgramState& state = ctx.state();
  const auto get = [&](Param::Source source) {
    return state.params.get(ctx.b, {.source = source, .call = state.call, .dtype = DType::U64});
  };
  const Value first = ctx.b.constant_int(DType::U64, static_cast<int64_t>(state.random_blocks));
  state.random_blocks += static_cast<uint64_t>((count + 3) / 4);
  return {get(Param::Source::Seed), get(Param::Source::Offset) + first};
}

/// What dropout multiplies probabilities with: 0 or 1 / (1 - p).
Value dropout_factors(const RandomState& random, Value p, const Dims& dims) {
  Builder& b = p.builder();
  const Value words = philox_words(random.seed, random.offset, 0, stablehlo::numel(dims));
  const Value bits = b.binary("shift_right_logical", words, constant_int_like(words, 8));
  const Value uniform = reshape(convert(bits, DType::F32), dims) * 0x1p-24;
  const Value keep = ge(uniform, convert(p, DType::F32));
  const Value all_dropped = ge(p, ones_like(p));
  const Value factor = where(all_dropped, zeros_like(p), 1.0 / (1.0 - p));
  return where(keep, factor, zeros_like(p));
}

/// (query, key, value, mask, dropout_p, is_causal, scale) -> output, logsumexp, seed, offset
Values attention(Context& ctx) {
  const Attention a = attention_args(ctx, 0, 5, 6);
  const Softmax probabilities = softmax(scores(ctx, a));
  Value weights = probabilities.numerator;
  RandomState random{ctx.b.constant_int(DType::U64, 0), ctx.b.constant_int(DType::U64, 0)};
  if (ctx.special(4) != 0.0) {
    random = reserve_random(ctx, weights.numel());
    weights = weights * dropout_factors(random, ctx.scalar(4, weights.dtype()), weights.dims());
  }
  const Value rows = group_rows(a, convert(weights, a.value.dtype()));
  const Value output =
      normalized(ungroup_rows(a, contract(ctx, rows, a.value, 3, 2)), probabilities.denominator);
  const Value logsumexp = squeeze(probabilities.maximum + log(probabilities.denominator), 3);
  return {output, logsumexp, ctx.b.bitcast_convert(random.seed, DType::S64),
          ctx.b.bitcast_convert(random.offset, DType::S64)};
}

/// Sums a gradient over the dimensions along which the mask was broadcast.
Value sum_to(Value grad, const Dims& dims) {
  Dims summed;
  const int64_t shift = grad.rank() - static_cast<int64_t>(dims.size());
  for (int64_t d = 0; d < grad.rank(); ++d) {
    if (d < shift || (dims[d - shift] == 1 && grad.dim(d) != 1)) summed.push_back(d);
  }
  return reshape(reduce_sum(grad, summed), dims);
}

/// (grad, query, key, value, mask, seed, offset, dropout_p, is_causal, scale, output_mask) ->
/// gradients of query, key, value, mask. The probabilities are computed again: nothing of their
/// size is kept.
Values attention_backward(Context& ctx) {
  const Attention a = attention_args(ctx, 1, 8, 9);
  const std::vector<bool>& wanted = ctx.flags(10);
  const DType dtype = a.query.dtype();
  const Softmax s = softmax(scores(ctx, a));
  const Value p = normalized(s.numerator, s.denominator);
  const Value grad = group_rows(a, ctx.tensor(0));
  Value dropped = p;
  Value grad_p = ungroup_rows(a, contract(ctx, grad, a.value, 3, 3));
  if (ctx.special(7) != 0.0) {
    const RandomState random{ctx.b.bitcast_convert(ctx.tensor(5), DType::U64),
                             ctx.b.bitcast_convert(ctx.tensor(6), DType::U64)};
    const Value factors = dropout_factors(random, ctx.scalar(7, p.dtype()), p.dims());
    dropped = p * factors;
    grad_p = grad_p * factors;
  }
  const Value grad_scores = p * (grad_p - reduce_sum(grad_p * p, {3}, true));
  const Value rows = group_rows(a, convert(grad_scores, dtype));
  Values results(4);
  if (wanted[0]) results[0] = ungroup_rows(a, contract(ctx, rows, a.key, 3, 2)) * a.scale;
  if (wanted[1]) results[1] = contract(ctx, rows, group_rows(a, a.query), 2, 2) * a.scale;
  if (wanted[2]) {
    results[2] = contract(ctx, group_rows(a, convert(dropped, dtype)), grad, 2, 2);
  }
  if (wanted[3]) results[3] = sum_to(grad_scores, a.mask.dims());
  return results;
}

}  // namespace

Table attention_table() {
  return {
      {.name = "torch_tpu::attention",
       .lower = attention,
       .special_values = {0.0},
       .uses_precision = true},
      {.name = "torch_tpu::attention_backward",
       .lower = attention_backward,
       .special_values = {0.0},
       .uses_precision = true},
  };
}

}  // namespace torch_tpu::lowering
