// Fused optimizer steps over lists of parameters.
//
// Hyperparameters are run-time operands, so that a schedule of learning rates compiles one program.
// All results keep their old values where found_inf says that a gradient overflowed; the caller
// corrects the step counts.
#include "lowering/families.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {

namespace {

/// What all optimizers do with a gradient before they use it.
struct Gradients {
  const Context& ctx;
  size_t maximize, weight_decay, grad_scale, found_inf;  // argument positions

  /// The k-th gradient, unscaled: what is stored back.
  Value unscaled(size_t k, DType dtype) const {
    const Value grad = cast(ctx.tensors(1)[k], dtype);
    if (!ctx.has(grad_scale)) return grad;
    return grad / stablehlo::reshape(cast(ctx.tensor(grad_scale), dtype), {});
  }

  /// The sign that minimizes.
  Value directed(Value grad) const { return ctx.flag(maximize) ? -grad : grad; }

  /// With the gradient of the L2 penalty. Without a penalty an infinite parameter must not make
  /// NaN.
  Value decayed(Value grad, Value param) const {
    const Value decay = ctx.scalar(weight_decay, grad.dtype());
    return stablehlo::where(stablehlo::ne(decay, 0.0), grad + param * decay, grad);
  }

  /// `fresh`, or `old` if the step is skipped.
  Value kept(Value fresh, Value old) const {
    fresh = cast(fresh, old.dtype());
    if (!ctx.has(found_inf)) return fresh;
    const Value overflow = stablehlo::reshape(ctx.tensor(found_inf), {});
    return stablehlo::where(stablehlo::ne(overflow, 0.0), old, fresh);
  }

  /// The new k-th gradient: null, which writes nothing, if it was not unscaled.
  Value stored(Value unscaled, size_t k) const {
    return ctx.has(grad_scale) ? kept(unscaled, ctx.tensors(1)[k]) : Value();
  }
};

DType wide_dtype(Value param) { return Context::compute_dtype(param.dtype()); }

/// 1 - x of a number close to 1: rounded once, not twice.
Value one_minus(const Context& ctx, size_t i, DType dtype) {
  return cast(1.0 - ctx.scalar(i, DType::F64), dtype);
}

/// 1 - beta^step, without the cancellation of that formula in F32.
Value bias_correction(Value one_minus_beta, Value step) {
  return -stablehlo::expm1(step * stablehlo::log1p(-one_minus_beta));
}

/// Joins lists of results in the order of the written arguments.
Values joined(std::initializer_list<Values> lists) {
  Values out;
  for (const Values& list : lists) out.insert(out.end(), list.begin(), list.end());
  return out;
}

/// (self, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, lr, beta1, beta2,
/// weight_decay, eps, amsgrad, maximize, grad_scale, found_inf). `decoupled`: AdamW.
template <bool decoupled>
Values adam(Context& ctx) {
  const Gradients gradients{
      .ctx = ctx, .maximize = 12, .weight_decay = 9, .grad_scale = 13, .found_inf = 14};
  const bool amsgrad = ctx.flag(11);
  Values params, grads, averages, squares, maxima;
  for (size_t k = 0; k < ctx.tensors(0).size(); ++k) {
    const DType dtype = wide_dtype(ctx.tensors(0)[k]);
    const Value old = ctx.tensors(0)[k];
    Value param = cast(old, dtype);
    const Value unscaled = gradients.unscaled(k, dtype);
    Value grad = gradients.directed(unscaled);
    const Value lr = stablehlo::reshape(ctx.scalar(6, dtype), {});
    if (decoupled) {
      const Value decay = ctx.scalar(9, dtype);
      param = stablehlo::where(stablehlo::ne(decay, 0.0), param * (1.0 - lr * decay), param);
    } else {
      grad = gradients.decayed(grad, param);
    }
    const Value rest1 = one_minus(ctx, 7, dtype), rest2 = one_minus(ctx, 8, dtype);
    const Value average = cast(ctx.tensors(2)[k], dtype) * ctx.scalar(7, dtype) + grad * rest1;
    const Value square =
        cast(ctx.tensors(3)[k], dtype) * ctx.scalar(8, dtype) + grad * grad * rest2;
    Value largest = square;
    if (amsgrad) {
      largest = stablehlo::maximum(cast(ctx.tensors(4)[k], dtype), square);
      maxima.push_back(gradients.kept(largest, ctx.tensors(4)[k]));
    }
    const Value step = stablehlo::reshape(cast(ctx.tensors(5)[k], dtype), {});
    const Value correction1 = bias_correction(rest1, step);
    const Value correction2 = stablehlo::sqrt(bias_correction(rest2, step));
    const Value deviation = stablehlo::sqrt(largest) / correction2 + ctx.scalar(10, dtype);
    params.push_back(gradients.kept(param - (lr / correction1) * average / deviation, old));
    grads.push_back(gradients.stored(unscaled, k));
    averages.push_back(gradients.kept(average, ctx.tensors(2)[k]));
    squares.push_back(gradients.kept(square, ctx.tensors(3)[k]));
  }
  return joined({params, grads, averages, squares, maxima});
}

/// (self, grads, momentum_buffer_list, weight_decay, momentum, lr, dampening, nesterov, maximize,
/// is_first_step, grad_scale, found_inf); no buffers: no momentum.
Values sgd(Context& ctx) {
  const Gradients gradients{
      .ctx = ctx, .maximize = 8, .weight_decay = 3, .grad_scale = 10, .found_inf = 11};
  const bool has_momentum = !ctx.tensors(2).empty();
  Values params, grads, buffers;
  for (size_t k = 0; k < ctx.tensors(0).size(); ++k) {
    const Value old = ctx.tensors(0)[k];
    const DType dtype = wide_dtype(old);
    const Value param = cast(old, dtype);
    const Value unscaled = gradients.unscaled(k, dtype);
    Value grad = gradients.decayed(gradients.directed(unscaled), param);
    if (has_momentum) {
      const Value momentum = ctx.scalar(4, dtype);
      Value buffer = grad;
      if (!ctx.flag(9)) {
        buffer = cast(ctx.tensors(2)[k], dtype) * momentum + grad * one_minus(ctx, 6, dtype);
      }
      buffers.push_back(gradients.kept(buffer, ctx.tensors(2)[k]));
      grad = ctx.flag(7) ? grad + buffer * momentum : buffer;
    }
    const Value lr = stablehlo::reshape(ctx.scalar(5, dtype), {});
    params.push_back(gradients.kept(param - grad * lr, old));
    grads.push_back(gradients.stored(unscaled, k));
  }
  return joined({params, grads, buffers});
}

/// (self, grads, state_sums, state_steps, lr, lr_decay, weight_decay, eps, maximize, grad_scale,
/// found_inf). The overload with a number for lr declares the steps as written, but does not.
Values adagrad(Context& ctx) {
  const Gradients gradients{
      .ctx = ctx, .maximize = 8, .weight_decay = 6, .grad_scale = 9, .found_inf = 10};
  Values params, grads, sums, steps;
  for (size_t k = 0; k < ctx.tensors(0).size(); ++k) {
    const Value old = ctx.tensors(0)[k];
    const DType dtype = wide_dtype(old);
    const Value param = cast(old, dtype);
    const Value unscaled = gradients.unscaled(k, dtype);
    const Value grad = gradients.decayed(gradients.directed(unscaled), param);
    const Value total = cast(ctx.tensors(2)[k], dtype) + grad * grad;
    const Value step = stablehlo::reshape(cast(ctx.tensors(3)[k], dtype), {});
    const Value lr = stablehlo::reshape(ctx.scalar(4, dtype), {});
    const Value rate = lr / (1.0 + (step - 1.0) * ctx.scalar(5, dtype));
    const Value deviation = stablehlo::sqrt(total) + ctx.scalar(7, dtype);
    params.push_back(gradients.kept(param - rate * (grad / deviation), old));
    grads.push_back(gradients.stored(unscaled, k));
    sums.push_back(gradients.kept(total, ctx.tensors(2)[k]));
  }
  // Nulls: nothing is written.
  if (ctx.op.name == "aten::_fused_adagrad_") steps.resize(params.size());
  return joined({params, grads, sums, steps});
}

}  // namespace

Table optimizer_table() {
  return {
      {"aten::_fused_adam_", adam<false>}, {"aten::_fused_adam_.tensor_lr", adam<false>},
      {"aten::_fused_adamw_", adam<true>}, {"aten::_fused_adamw_.tensor_lr", adam<true>},
      {"aten::_fused_sgd_", sgd},          {"aten::_fused_sgd_.tensor_lr", sgd},
      {"aten::_fused_adagrad_", adagrad},  {"aten::_fused_adagrad_.tensor_lr", adagrad},
  };
}

}  // namespace torch_tpu::lowering
