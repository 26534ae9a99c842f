// Connectionist temporal classification. A target of length l is a path of 2 l + 1 states, blanks
// between its labels; the forward and the backward variables run over time in a loop.
#include <limits>

#include "lowering/families.h"
#include "lowering/gather_scatter.h"
#include "lowering/pointwise.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // logarithm of 0

struct Paths {
  int64_t times, batch, classes, states;
  Value labels;         // [batch, states]: S64
  Value valid;          // [batch, states]: a state of the sample's path
  Value skips;          // [batch, states]: may follow the state before the last one
  Value state;          // [batch, states]: 0, 1, ...
  Value last_time;      // [batch, 1]; -1 of an empty input
  Value target_states;  // [batch, 1]: twice the length of the target
  Value log_p;          // [times, batch, states]: of the states' labels
};

/// Targets [batch, longest]: padded already, or one after the other.
Value padded_targets(Value targets, Value lengths, int64_t longest) {
  Builder& b = targets.builder();
  if (targets.rank() == 2) return cast(slice_dim(targets, 1, 0, longest), DType::S64);
  const Dims dims{lengths.dim(0), longest};
  if (targets.numel() == 0 || stablehlo::numel(dims) == 0) return b.zeros({DType::S64, dims});
  const Value start = unsqueeze(prefix_sum(lengths) - lengths, 1);
  const Value place = b.iota({DType::S64, dims}, 1) + start;
  const Value bound = stablehlo::constant_int_like(place, targets.numel() - 1);
  return cast(take(targets, 0, minimum(place, bound)), DType::S64);
}

/// Blank, label, blank, ..., label, blank.
Value with_blanks(Value targets, int64_t blank) {
  Builder& b = targets.builder();
  const int64_t batch = targets.dim(0), length = targets.dim(1);
  const Value blanks = b.constant_int(DType::S64, blank, {batch, length, 1});
  const Value pairs = b.concatenate(Values{blanks, unsqueeze(targets, 2)}, 2);
  const Value last = b.constant_int(DType::S64, blank, {batch, 1});
  return b.concatenate(Values{b.reshape(pairs, {batch, 2 * length}), last}, 1);
}

/// x moved by `steps` states; what comes in from outside is never.
Value moved(Value x, int64_t steps) {
  const Value never = x.builder().constant(x.dtype(), kNever);
  return x.builder().pad(x, never, {0, steps}, {0, -steps});
}

/// Arguments `first` ...: log_probs, targets, input_lengths, target_lengths.
Paths paths_of(Context& ctx, size_t first, int64_t longest, int64_t blank) {
  Builder& b = ctx.b;
  const Value log_probs = ctx.tensor(first);
  Paths p;
  p.times = log_probs.dim(0), p.batch = log_probs.dim(1), p.classes = log_probs.dim(2);
  p.states = 2 * longest + 1;
  const Value lengths = cast(ctx.tensor(first + 3), DType::S64);
  p.last_time = unsqueeze(cast(ctx.tensor(first + 2), DType::S64), 1) - 1.0;
  p.target_states = unsqueeze(lengths, 1) * 2.0;
  p.state = b.iota({DType::S64, {p.batch, p.states}}, 1);
  p.valid = le(p.state, p.target_states);
  const Value labels = with_blanks(padded_targets(ctx.tensor(first + 1), lengths, longest), blank);
  p.labels = ctx.checked_index(labels, p.classes, 1, /*allow_negative=*/false, p.valid);
  const Value before = b.pad(p.labels, b.constant_int(DType::S64, blank), {0, 2}, {0, -2});
  p.skips = logical_and(ne(p.labels, before), ne(p.labels, static_cast<double>(blank)));
  const Value each = broadcast_to(p.labels, {p.times, p.batch, p.states});
  p.log_p = gather_along(log_probs, 2, each);
  return p;
}

/// The logarithm of a sum of up to three exponentials, never where all are.
Value log_sum(const Values& xs) {
  Value greatest = xs[0];
  for (const Value& x : xs) greatest = maximum(greatest, x);
  greatest = where(eq(greatest, kNever), 0.0, greatest);
  Value sum = exp(xs[0] - greatest);
  for (size_t i = 1; i < xs.size(); ++i) sum = sum + exp(xs[i] - greatest);
  return log(sum) + greatest;
}

Value at_time(Value x, Value time) {
  Builder& b = x.builder();
  const Value zero = b.constant_int(DType::S64, 0);
  return squeeze(b.dynamic_slice(x, Values{time, zero, zero}, {1, x.dim(1), x.dim(2)}), 0);
}

Value with_time(Value x, Value row, Value time) {
  const Value zero = x.builder().constant_int(DType::S64, 0);
  return x.builder().dynamic_update_slice(x, unsqueeze(row, 0), Values{time, zero, zero});
}

/// [times, batch, states]: logarithms of the probability of all beginnings of paths that end here.
Value forward_variables(const Paths& p) {
  Builder& b = p.log_p.builder();
  const DType dtype = p.log_p.dtype();
  const Value never = b.constant(dtype, kNever, {p.batch, p.states});
  const Value start = logical_and(lt(p.state, 2.0), p.valid);
  const Value none = b.constant(dtype, kNever, {p.times, p.batch, p.states});
  // {time, the variables of the time before, all}
  const Values v = b.while_loop(
      Values{b.constant_int(DType::S64, 0), never, none},
      [&](Builder&, std::span<const Value> v) -> Values {
        return {lt(v[0], static_cast<double>(p.times))};
      },
      [&](Builder&, std::span<const Value> v) -> Values {
        const Value skipped = where(p.skips, moved(v[1], 2), never);
        const Value reached = log_sum({v[1], moved(v[1], 1), skipped});
        const Value first = where(start, 0.0, never);
        const Value before = b.select(eq(v[0], 0.0), first, reached);
        const Value now = logical_and(
            p.valid,
            broadcast_to(le(broadcast_to(v[0], {p.batch, 1}), p.last_time), {p.batch, p.states}));
        const Value alpha = where(now, before + at_time(p.log_p, v[0]), never);
        return {v[0] + 1.0, alpha, with_time(v[2], alpha, v[0])};
      });
  return v[2];
}

/// [times, batch, states]: the forward variables times the probability of all ends of paths that go
/// on from here.
Value through_variables(const Paths& p, Value alphas) {
  Builder& b = alphas.builder();
  const Value never = b.constant(alphas.dtype(), kNever, {p.batch, p.states});
  const Value end = logical_and(p.valid, ge(p.state, p.target_states - 1.0));
  // A state that the one before the last may skip to, seen from there.
  const Value skipped_to = b.pad(p.skips, b.constant_int(DType::Pred, 0), {0, -2}, {0, 2});
  // {time, the variables of the time behind with its probability, all}
  const Values v = b.while_loop(
      Values{b.constant_int(DType::S64, p.times - 1), never, alphas},
      [](Builder&, std::span<const Value> v) -> Values { return {ge(v[0], 0.0)}; },
      [&](Builder&, std::span<const Value> v) -> Values {
        const Value skipping = where(skipped_to, moved(v[1], -2), never);
        const Value going_on = log_sum({v[1], moved(v[1], -1), skipping});
        const Value is_last =
            broadcast_to(eq(broadcast_to(v[0], {p.batch, 1}), p.last_time), {p.batch, p.states});
        const Value beta = where(p.valid, where(is_last, where(end, 0.0, never), going_on), never);
        const Value through = at_time(alphas, v[0]) + beta;
        return {v[0] - 1.0, beta + at_time(p.log_p, v[0]), with_time(v[2], through, v[0])};
      });
  return v[2];
}

/// The state of a position [batch, 1] in x [batch, states].
Value state_at(Value x, Value position) {
  return gather_along(x, 1, maximum(position, stablehlo::zeros_like(position)));
}

/// Arguments: log_probs, targets, input_lengths, target_lengths, longest, blank.
Values ctc_loss(Context& ctx) {
  const Paths p = paths_of(ctx, 0, ctx.integer(4), ctx.integer(5));
  const Value no_target = eq(p.target_states, 0.0);
  const double infinity = std::numeric_limits<double>::infinity();
  const Value of_nothing =
      where(no_target, 0.0, ctx.b.constant(ctx.out().dtype, infinity, no_target.dims()));
  if (p.times == 0) return {squeeze(of_nothing, 1), ctx.b.zeros(ctx.out(1))};
  const Value alphas = forward_variables(p);
  const Value time =
      broadcast_to(unsqueeze(maximum(p.last_time, stablehlo::zeros_like(p.last_time)), 0),
                   {1, p.batch, p.states});
  const Value last = squeeze(gather_along(alphas, 0, time), 0);
  const Value label = where(no_target, kNever, state_at(last, p.target_states - 1.0));
  const Value loss = -log_sum({state_at(last, p.target_states), label});
  return {squeeze(where(lt(p.last_time, 0.0), of_nothing, loss), 1), transpose(alphas, {1, 0, 2})};
}

/// Arguments: grad, log_probs, targets, input_lengths, target_lengths, neg_log_likelihood,
/// log_alpha, blank, zero_infinity.
Values ctc_loss_backward(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Value log_probs = ctx.tensor(1), alphas = transpose(ctx.tensor(6), {1, 0, 2});
  const Paths p = paths_of(ctx, 1, alphas.dim(2) / 2, ctx.integer(7));
  const Dims batches{1, p.batch, 1};
  const Value loss = ctx.b.reshape(ctx.tensor(5), batches);
  const Value time = ctx.b.iota({DType::S64, {p.times, p.batch, 1}}, 0);
  const Value now = le(time, unsqueeze(p.last_time, 0));
  // The probability that a path which spells the target is in this state at this time.
  const Value posterior =
      where(logical_and(now, unsqueeze(p.valid, 0)), exp(through_variables(p, alphas) + loss), 0.0);
  const Value sums =
      scatter_along(stablehlo::zeros_like(log_probs), 2, broadcast_to(p.labels, posterior.dims()),
                    posterior, Combine::Add);
  // As in PyTorch, which divides 0 by 0 there.
  const Value impossible = logical_or(eq(log_probs, kNever), is_inf(loss));
  const Value slope =
      where(impossible, std::numeric_limits<double>::quiet_NaN(), exp(log_probs) - sums);
  Value used = now;
  if (ctx.flag(8)) used = logical_and(used, logical_not(is_inf(loss)));
  return {where(used, slope * ctx.b.reshape(ctx.tensor(0), batches), 0.0)};
}

}  // namespace

Table ctc_loss_table() {
  return {
      {"torch_tpu::ctc_loss", ctc_loss},
      {"torch_tpu::ctc_loss_backward", ctc_loss_backward},
  };
}

}  // namespace torch_tpu::lowering
