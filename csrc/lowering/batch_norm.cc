// Batch normalization: statistics over all dimensions but the second.
#include "lowering/families.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {

namespace {

/// Argument i in this dtype; null for None.
Value optional_tensor(const Context& ctx, size_t i, DType dtype) {
  return ctx.has(i) ? cast(ctx.tensor(i), dtype) : Value();
}

Value normalize(Value x, Value average, Value invstd, Value weight, Value bias) {
  const Value scale = weight ? invstd * weight : invstd;
  const Value out = (x - along(average, 1, x.dims())) * along(scale, 1, x.dims());
  return bias ? out + along(bias, 1, x.dims()) : out;
}

/// Mean and sum of squared deviations of each channel.
Moments channel_moments(Value x) {
  const Dims dims = other_dims(x, 1);
  const Moments m = moments(x, dims);
  return {stablehlo::reshape(m.mean, {x.dim(1)}), stablehlo::reshape(m.squares, {x.dim(1)})};
}

Value channel_sum(Value x) { return sum(x, other_dims(x, 1)); }

double elements_per_channel(Value x) { return static_cast<double>(count(x, other_dims(x, 1))); }

/// old + momentum * (fresh - old), weighted as PyTorch does it; null if there is none.
Value updated(Value old, Value fresh, Value momentum) {
  return old ? (1.0 - momentum) * old + momentum * fresh : Value();
}

/// What a batch normalization computes; the new statistics are null where there are none.
struct Normalized {
  Value output, mean, invstd, running_mean, running_var;
};

struct Statistics {
  Value mean, var;  // running, null for None, in the computing dtype
};

Normalized normalize_training(Value x, Value weight, Value bias, Statistics running, Value momentum,
                              Value eps) {
  const Moments m = channel_moments(x);
  const double n = elements_per_channel(x);
  const Value invstd = stablehlo::rsqrt(m.squares / n + eps);
  return {normalize(x, m.mean, invstd, weight, bias), m.mean, invstd,
          updated(running.mean, m.mean, momentum),
          updated(running.var, m.squares / (n - 1.0), momentum)};
}

/// Statistics that an operator does not save are empty.
Value saved(const Context& ctx, Value x, size_t k) {
  return ctx.out(k).numel() == x.numel() ? x : ctx.b.zeros({x.dtype(), ctx.out(k).dims});
}

/// Argument positions of (input, weight, bias, running_mean, running_var, training, momentum, eps)
/// in an operator; -1: it has none.
struct Positions {
  int running, training, momentum, eps;
};

/// Results: output, saved mean, saved inverse deviation, then the running statistics, if there are
/// any.
Values batch_norm(Context& ctx, Positions at) {
  const Value x = widen(ctx.tensor(0));
  const DType dtype = x.dtype();
  const Value weight = optional_tensor(ctx, 1, dtype), bias = optional_tensor(ctx, 2, dtype);
  const bool has_running = at.running >= 0 && ctx.has(at.running);
  Statistics running;
  if (has_running) {
    running = {optional_tensor(ctx, at.running, dtype),
               optional_tensor(ctx, at.running + 1, dtype)};
  }
  const Value eps = ctx.scalar(at.eps, dtype);
  Normalized n;
  if (ctx.flag(at.training)) {
    n = normalize_training(x, weight, bias, running, ctx.scalar(at.momentum, dtype), eps);
  } else {
    const Value invstd = stablehlo::rsqrt(running.var + eps);
    n = {normalize(x, running.mean, invstd, weight, bias), running.mean, invstd, {}, {}};
  }
  Values out{n.output, saved(ctx, n.mean, 1), saved(ctx, n.invstd, 2)};
  if (!has_running) return out;
  // Nulls without training: nothing is written.
  out.push_back(n.running_mean);
  out.push_back(n.running_var);
  return out;
}

Values native_batch_norm(Context& ctx) { return batch_norm(ctx, {3, 5, 6, 7}); }
Values batch_norm_no_stats(Context& ctx) { return batch_norm(ctx, {-1, 3, 4, 5}); }

/// (input, running_mean, running_var, momentum) -> (mean, biased variance, new statistics).
Values batch_norm_update_stats(Context& ctx) {
  const Value x = widen(ctx.tensor(0));
  const Moments m = channel_moments(x);
  const double n = elements_per_channel(x);
  const Value momentum = ctx.scalar(3, x.dtype());
  Values out{m.mean, m.squares / n};
  if (ctx.has(1)) out.push_back(updated(cast(ctx.tensor(1), x.dtype()), m.mean, momentum));
  if (ctx.has(2)) {
    out.push_back(updated(cast(ctx.tensor(2), x.dtype()), m.squares / (n - 1.0), momentum));
  }
  return out;
}

/// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps,
/// output_mask): the results that output_mask does not ask for are null.
Values batch_norm_backward(Context& ctx) {
  const Value x = widen(ctx.tensor(1));
  const DType dtype = x.dtype();
  const Value grad = cast(ctx.tensor(0), dtype);
  const bool train = ctx.flag(7);
  const Value average = cast(ctx.tensor(train ? 5 : 3), dtype);
  const Value invstd = train ? cast(ctx.tensor(6), dtype)
                             : stablehlo::rsqrt(cast(ctx.tensor(4), dtype) + ctx.scalar(8, dtype));
  const Value weight = optional_tensor(ctx, 2, dtype);
  const Value scale = weight ? invstd * weight : invstd;
  const Value deviation = x - along(average, 1, x.dims());
  const Value total = channel_sum(grad), along_x = channel_sum(grad * deviation);
  const std::vector<bool>& wanted = ctx.flags(9);
  Values out(3);
  if (wanted[0]) {
    Value inner = grad;
    if (train) {
      const double n = elements_per_channel(x);
      inner = inner - along(total / n, 1, x.dims()) -
              deviation * along(along_x * invstd * invstd / n, 1, x.dims());
    }
    out[0] = inner * along(scale, 1, x.dims());
  }
  if (wanted[1]) out[1] = along_x * invstd;
  if (wanted[2]) out[2] = total;
  return out;
}

// ---- The parts of a batch normalization over several processes.

/// (input, eps) -> (mean, invstd) of this process.
Values batch_norm_stats(Context& ctx) {
  const Value x = widen(ctx.tensor(0));
  const Moments m = channel_moments(x);
  const Value eps = ctx.scalar(1, x.dtype());
  return {m.mean, stablehlo::rsqrt(m.squares / elements_per_channel(x) + eps)};
}

/// (input, weight, bias, mean, invstd, eps).
Values batch_norm_elemt(Context& ctx) {
  const Value x = widen(ctx.tensor(0));
  const DType dtype = x.dtype();
  return {normalize(x, cast(ctx.tensor(3), dtype), cast(ctx.tensor(4), dtype),
                    optional_tensor(ctx, 1, dtype), optional_tensor(ctx, 2, dtype))};
}

/// (input, mean [processes, C], invstd, running_mean, running_var, momentum, eps, counts
/// [processes])
/// -> (mean, invstd) over all processes, and the new running statistics.
Values batch_norm_gather_stats(Context& ctx) {
  const Value means = widen(ctx.tensor(1));
  const DType dtype = means.dtype();
  const Value invstds = cast(ctx.tensor(2), dtype), eps = ctx.scalar(6, dtype);
  Value counts = cast(ctx.tensor(7), dtype);
  counts = along(stablehlo::flatten(counts), 0, means.dims());
  const Value n = sum(counts, {0});
  const Value average = sum(means * counts, {0}) / n;
  const Value offset = means - along(average, 1, means.dims());
  const Value variance = 1.0 / (invstds * invstds) - eps;
  const Value squares = sum((variance + offset * offset) * counts, {0});
  const Value momentum = ctx.scalar(5, dtype);
  Values out{average, stablehlo::rsqrt(squares / n + eps)};
  if (ctx.has(3)) out.push_back(updated(cast(ctx.tensor(3), dtype), average, momentum));
  if (ctx.has(4)) out.push_back(updated(cast(ctx.tensor(4), dtype), squares / (n - 1.0), momentum));
  return out;
}

/// (grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g)
/// -> (sum_dy, sum_dy_xmu, grad_weight, grad_bias).
Values batch_norm_backward_reduce(Context& ctx) {
  const Value x = widen(ctx.tensor(1));
  const DType dtype = x.dtype();
  const Value grad = cast(ctx.tensor(0), dtype);
  const Value deviation = x - along(cast(ctx.tensor(2), dtype), 1, x.dims());
  const Value total = channel_sum(grad), along_x = channel_sum(grad * deviation);
  Values out(4);
  if (ctx.flag(5)) out[0] = total, out[1] = along_x;
  if (ctx.flag(6)) out[2] = along_x * cast(ctx.tensor(3), dtype);
  if (ctx.flag(7)) out[3] = total;
  return out;
}

/// (grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count [processes]) -> gradient of
/// the input.
Values batch_norm_backward_elemt(Context& ctx) {
  const Value x = widen(ctx.tensor(1));
  const DType dtype = x.dtype();
  const Value grad = cast(ctx.tensor(0), dtype), invstd = cast(ctx.tensor(3), dtype);
  const Value weight = optional_tensor(ctx, 4, dtype);
  const Value counts = cast(ctx.tensor(7), dtype);
  const Value n = sum(counts, stablehlo::all_dims(counts));
  const Value deviation = x - along(cast(ctx.tensor(2), dtype), 1, x.dims());
  const Value slope = cast(ctx.tensor(6), dtype) / n * invstd * invstd;
  const Value inner = grad - along(cast(ctx.tensor(5), dtype) / n, 1, x.dims()) -
                      deviation * along(slope, 1, x.dims());
  return {inner * along(weight ? invstd * weight : invstd, 1, x.dims())};
}

}  // namespace

Table batch_norm_table() {
  return {
      {.name = "aten::native_batch_norm", .lower = native_batch_norm, .extra_writes = {3, 4}},
      {"aten::_native_batch_norm_legit.no_stats", batch_norm_no_stats},
      {.name = "aten::batch_norm_update_stats",
       .lower = batch_norm_update_stats,
       .extra_writes = {1, 2}},
      {"aten::native_batch_norm_backward", batch_norm_backward},
      {"aten::batch_norm_backward", batch_norm_backward},
      {"aten::batch_norm_stats", batch_norm_stats},
      {"aten::batch_norm_elemt", batch_norm_elemt},
      {.name = "aten::batch_norm_gather_stats_with_counts",
       .lower = batch_norm_gather_stats,
       .extra_writes = {3, 4}},
      {"aten::batch_norm_backward_reduce", batch_norm_backward_reduce},
      {"aten::batch_norm_backward_elemt", batch_norm_backward_elemt},
  };
}

}  // namespace torch_tpu::lowering
