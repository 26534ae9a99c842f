// The cells of LSTM and GRU after their matrix products: gates to the next state, and back.
// PyTorch calls these on devices that are not the CPU.
#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"
#include "stablehlo/math.h"

namespace torch_tpu::lowering {
namespace {

/// An argument in the dtype in which it is computed with.
Value wide(const Context& ctx, size_t i) {
  return cast(ctx.tensor(i), Context::compute_dtype(ctx.tensor(i).dtype()));
}

Value wide_or(const Context& ctx, size_t i, Value otherwise) {
  return ctx.has(i) ? wide(ctx, i) : otherwise;
}

/// The k-th of count equal parts of [batch, count * width].
Value part(Value x, int64_t k, int64_t count) {
  const int64_t width = x.dim(1) / count;
  return slice_dim(x, 1, k * width, (k + 1) * width);
}

Value join(std::initializer_list<Value> parts) {
  return parts.begin()->builder().concatenate({parts.begin(), parts.size()}, 1);
}

/// Gates [batch, n] with a bias [n], if there is one.
Value with_bias(const Context& ctx, Value gates, size_t bias) {
  return ctx.has(bias) ? gates + broadcast_to(wide(ctx, bias), gates.dims()) : gates;
}

/// x (1 - x): the derivative of sigmoid by its result.
Value sigmoid_slope(Value x) { return x * (1.0 - x); }
/// 1 - x^2: the derivative of tanh by its result.
Value tanh_slope(Value x) { return 1.0 - x * x; }

/// Arguments: input gates, hidden gates, cell, biases of both. Gates: input, forget, cell, output.
/// Results: hidden, cell, and the activated gates for backward.
Values lstm_cell(Context& ctx) {
  const Value gates = with_bias(ctx, wide(ctx, 0), 3) + with_bias(ctx, wide(ctx, 1), 4);
  const Value in = sigmoid(part(gates, 0, 4)), forget = sigmoid(part(gates, 1, 4));
  const Value candidate = tanh(part(gates, 2, 4)), out = sigmoid(part(gates, 3, 4));
  const Value cell = forget * wide(ctx, 2) + in * candidate;
  return {out * tanh(cell), cell, join({in, forget, candidate, out})};
}

/// Arguments: gradients of hidden and cell, cell before and after, activated gates, has_bias.
/// Results: gradients of the gates, of the cell, and of a bias.
Values lstm_cell_backward(Context& ctx) {
  if (!ctx.has(0) && !ctx.has(1)) return {{}, {}, {}};
  const Value before = wide(ctx, 2), after = tanh(wide(ctx, 3)), gates = wide(ctx, 4);
  const Value in = part(gates, 0, 4), forget = part(gates, 1, 4);
  const Value candidate = part(gates, 2, 4), out = part(gates, 3, 4);
  const Value hidden = wide_or(ctx, 0, zeros_like(before));
  const Value cell = hidden * out * tanh_slope(after) + wide_or(ctx, 1, zeros_like(before));
  const Value grads =
      join({cell * candidate * sigmoid_slope(in), cell * before * sigmoid_slope(forget),
            cell * in * tanh_slope(candidate), hidden * after * sigmoid_slope(out)});
  return {grads, cell * forget, ctx.flag(5) ? reduce_sum(grads, {0}) : Value()};
}

/// Arguments: input gates, hidden gates, hidden, biases of both. Gates: reset, update, new.
/// Results: hidden, and what backward needs.
Values gru_cell(Context& ctx) {
  const Value x = with_bias(ctx, wide(ctx, 0), 3), h = with_bias(ctx, wide(ctx, 1), 4);
  const Value hidden = wide(ctx, 2), from_hidden = part(h, 2, 3);
  const Value reset = sigmoid(part(x, 0, 3) + part(h, 0, 3));
  const Value update = sigmoid(part(x, 1, 3) + part(h, 1, 3));
  const Value fresh = tanh(part(x, 2, 3) + reset * from_hidden);
  return {fresh + update * (hidden - fresh), join({reset, update, fresh, hidden, from_hidden})};
}

/// Arguments: gradient of hidden, what gru_cell kept, has_bias. Results: gradients of the input
/// gates, the hidden gates, hidden, and both biases.
Values gru_cell_backward(Context& ctx) {
  const Value grad = wide(ctx, 0), kept = wide(ctx, 1);
  const Value reset = part(kept, 0, 5), update = part(kept, 1, 5), fresh = part(kept, 2, 5);
  const Value hidden = part(kept, 3, 5), from_hidden = part(kept, 4, 5);
  const Value of_update = grad * (hidden - fresh) * sigmoid_slope(update);
  const Value of_fresh = grad * (1.0 - update) * tanh_slope(fresh);
  const Value of_reset = of_fresh * from_hidden * sigmoid_slope(reset);
  const Value x = join({of_reset, of_update, of_fresh});
  const Value h = join({of_reset, of_update, of_fresh * reset});
  if (!ctx.flag(2)) return {x, h, grad * update, {}, {}};
  return {x, h, grad * update, reduce_sum(x, {0}), reduce_sum(h, {0})};
}

}  // namespace

Table rnn_table() {
  return {
      {"torch_tpu::lstm_cell", lstm_cell},
      {"aten::_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward},
      {"aten::_thnn_fused_gru_cell", gru_cell},
      {"aten::_thnn_fused_gru_cell_backward", gru_cell_backward},
  };
}

}  // namespace torch_tpu::lowering
