// Padding by a constant, by reflection and by repetition of the edges, and the gradients.
#include <algorithm>

#include "lowering/context.h"
#include "lowering/families.h"

namespace torch_tpu::lowering {
namespace {

/// Padding of one dimension; negative numbers cut.
struct Margin {
  int64_t low, high;

  int64_t cut_low() const { return std::max<int64_t>(-low, 0); }
  int64_t cut_high() const { return std::max<int64_t>(-high, 0); }
  int64_t grow_low() const { return std::max<int64_t>(low, 0); }
  int64_t grow_high() const { return std::max<int64_t>(high, 0); }
};

/// PyTorch lists the last dimension first.
Margin margin(const Dims& padding, int64_t dim, int64_t rank) {
  const int64_t at = 2 * (rank - 1 - dim);
  return {padding[at], padding[at + 1]};
}

Value pad_zeros(Value x, int64_t dim, int64_t low, int64_t high) {
  if (low == 0 && high == 0) return x;
  Dims lows(x.rank(), 0), highs(x.rank(), 0);
  lows[dim] = low;
  highs[dim] = high;
  Builder& b = x.builder();
  return b.pad(x, b.constant_int(x.dtype(), 0), lows, highs);
}

Value repeated(Value slice, int64_t dim, int64_t count) {
  Dims dims = slice.dims();
  dims[dim] = count;
  return broadcast_to(slice, dims);
}

struct Reflection {
  static Value before(Value x, int64_t dim, int64_t count) {
    return x.builder().reverse(slice_dim(x, dim, 1, count + 1), {dim});
  }
  static Value after(Value x, int64_t dim, int64_t count) {
    const int64_t size = x.dim(dim);
    return x.builder().reverse(slice_dim(x, dim, size - 1 - count, size - 1), {dim});
  }
  /// Gradients of the margins, in an input of `size`.
  static Value before_backward(Value grad, int64_t dim, int64_t size) {
    const int64_t count = grad.dim(dim);
    return pad_zeros(grad.builder().reverse(grad, {dim}), dim, 1, size - 1 - count);
  }
  static Value after_backward(Value grad, int64_t dim, int64_t size) {
    const int64_t count = grad.dim(dim);
    return pad_zeros(grad.builder().reverse(grad, {dim}), dim, size - 1 - count, 1);
  }
};

struct Replication {
  static Value before(Value x, int64_t dim, int64_t count) {
    return repeated(slice_dim(x, dim, 0, 1), dim, count);
  }
  static Value after(Value x, int64_t dim, int64_t count) {
    return repeated(slice_dim(x, dim, x.dim(dim) - 1, x.dim(dim)), dim, count);
  }
  static Value before_backward(Value grad, int64_t dim, int64_t size) {
    return pad_zeros(reduce_sum(grad, {dim}, true), dim, 0, size - 1);
  }
  static Value after_backward(Value grad, int64_t dim, int64_t size) {
    return pad_zeros(reduce_sum(grad, {dim}, true), dim, size - 1, 0);
  }
};

template <class Edge>
Value pad_dim(Value x, int64_t dim, const Margin& m) {
  Values parts;
  if (m.low > 0) parts.push_back(Edge::before(x, dim, m.low));
  parts.push_back(x);
  if (m.high > 0) parts.push_back(Edge::after(x, dim, m.high));
  // Cuts come last: what a side grows by may be more than the other side leaves.
  const Value grown = parts.size() == 1 ? x : x.builder().concatenate(parts, dim);
  return slice_dim(grown, dim, m.cut_low(), grown.dim(dim) - m.cut_high());
}

template <class Edge>
Value pad_dim_backward(Value grad, int64_t dim, const Margin& m) {
  grad = pad_zeros(grad, dim, m.cut_low(), m.cut_high());
  const int64_t total = grad.dim(dim);
  const int64_t size = total - m.grow_low() - m.grow_high();
  Value sum = slice_dim(grad, dim, m.grow_low(), m.grow_low() + size);
  if (m.low > 0) sum = sum + Edge::before_backward(slice_dim(grad, dim, 0, m.low), dim, size);
  if (m.high > 0) {
    sum = sum + Edge::after_backward(slice_dim(grad, dim, total - m.high, total), dim, size);
  }
  return sum;
}

/// (self, padding)
template <class Edge>
Values pad_edges(Context& ctx) {
  Value x = ctx.tensor(0);
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Dims& padding = ctx.ints(1);
  const int64_t n = static_cast<int64_t>(padding.size()) / 2;
  for (int64_t dim = x.rank() - 1; dim >= x.rank() - n; --dim) {
    x = pad_dim<Edge>(x, dim, margin(padding, dim, x.rank()));
  }
  return {x};
}

/// (grad_output, self, padding)
template <class Edge>
Values pad_edges_backward(Context& ctx) {
  Value grad = ctx.tensor(0);
  if (ctx.out().numel() == 0 || grad.numel() == 0) return {ctx.b.zeros(ctx.out())};
  grad = convert(grad, Context::compute_dtype(grad.dtype()));
  const Dims& padding = ctx.ints(2);
  const int64_t n = static_cast<int64_t>(padding.size()) / 2;
  for (int64_t dim = grad.rank() - n; dim < grad.rank(); ++dim) {
    grad = pad_dim_backward<Edge>(grad, dim, margin(padding, dim, grad.rank()));
  }
  return {grad};
}

/// (self, pad, value)
Values constant_pad(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Dims& padding = ctx.ints(1);
  Dims low(x.rank(), 0), high(x.rank(), 0);
  for (int64_t dim = x.rank() - static_cast<int64_t>(padding.size()) / 2; dim < x.rank(); ++dim) {
    const Margin m = margin(padding, dim, x.rank());
    low[dim] = m.low;
    high[dim] = m.high;
  }
  return {ctx.b.pad(x, ctx.scalar_or(2, x.dtype(), 0.0), low, high)};
}

}  // namespace

Table padding_table() {
  return {
      {.name = "aten::constant_pad_nd", .lower = constant_pad, .special_values = {0.0}},
      {.name = "aten::reflection_pad1d", .lower = pad_edges<Reflection>},
      {.name = "aten::reflection_pad2d", .lower = pad_edges<Reflection>},
      {.name = "aten::reflection_pad3d", .lower = pad_edges<Reflection>},
      {.name = "aten::reflection_pad1d_backward", .lower = pad_edges_backward<Reflection>},
      {.name = "aten::reflection_pad2d_backward", .lower = pad_edges_backward<Reflection>},
      {.name = "aten::reflection_pad3d_backward", .lower = pad_edges_backward<Reflection>},
      {.name = "aten::replication_pad1d", .lower = pad_edges<Replication>},
      {.name = "aten::replication_pad2d", .lower = pad_edges<Replication>},
      {.name = "aten::replication_pad3d", .lower = pad_edges<Replication>},
      {.name = "aten::replication_pad1d_backward", .lower = pad_edges_backward<Replication>},
      {.name = "aten::replication_pad2d_backward", .lower = pad_edges_backward<Replication>},
      {.name = "aten::replication_pad3d_backward", .lower = pad_edges_backward<Replication>},
  };
}

}  // namespace torch_tpu::lowering
