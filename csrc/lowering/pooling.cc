// Pooling over windows of the last one, two or three dimensions, and its gradients.
#include <algorithm>

#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/taps.h"

namespace torch_tpu::lowering {
namespace {

using stablehlo::Window;

/// Windows up to this size along a dimension are unrolled into slices, which XLA vectorizes.
constexpr int64_t kMaxUnrolled = 32;
/// Gradients of max pooling with more elements per window than this are a scatter.
constexpr int64_t kMaxPlaced = 64;

/// The arguments that all poolings share, at these positions (negative: not an argument).
struct PoolArgs {
  int kernel, stride, pad, dilation = -1;
};

/// One entry per spatial dimension. `input` and `output` are whole shapes.
std::vector<Windows> windows_of(Context& ctx, size_t n, const PoolArgs& args, const Dims& input,
                                const Dims& output) {
  const Dims kernel = expand_ints(ctx.ints(args.kernel), n);
  const Dims& given_stride = ctx.ints(args.stride);
  const Dims stride = given_stride.empty() ? kernel : expand_ints(given_stride, n);
  const Dims pad = expand_ints(ctx.ints(args.pad), n);
  const Dims dilation = args.dilation < 0 ? Dims(n, 1) : expand_ints(ctx.ints(args.dilation), n);
  std::vector<Windows> windows(n);
  for (size_t i = 0; i < n; ++i) {
    windows[i] = {.size = kernel[i],
                  .stride = stride[i],
                  .pad = pad[i],
                  .dilation = dilation[i],
                  .count = output[input.size() - n + i]};
  }
  return windows;
}

int64_t plane_size(const Dims& dims, size_t n) {
  int64_t size = 1;
  for (size_t i = dims.size() - n; i < dims.size(); ++i) size *= dims[i];
  return size;
}

DType index_dtype(int64_t plane) { return plane > INT32_MAX ? DType::S64 : DType::S32; }

/// Position of the k-th element of each window, broadcastable along `dim`.
Value positions(Builder& b, const Windows& w, int64_t k, int64_t dim, int64_t rank, DType dtype) {
  Dims dims(rank, 1), values(w.count);
  dims[dim] = w.count;
  for (int64_t o = 0; o < w.count; ++o) values[o] = w.position(o, k);
  return reshape(b.constant_ints(dtype, values), dims);
}

/// A maximum and where it was found.
struct Best {
  Value value, index;
};

/// Whether the candidate wins over the best: the first of equal values, the last NaN, as PyTorch
/// scans.
Value wins(const Best& candidate, const Best& best) {
  const Value later = gt(candidate.index, best.index);
  const Value greater = gt(candidate.value, best.value);
  const Value tie = logical_and(eq(candidate.value, best.value), logical_not(later));
  const Value win = logical_or(greater, tie);
  if (!is_float(candidate.value.dtype())) return win;
  const Value both = logical_and(is_nan(best.value), logical_not(later));
  return logical_or(win, logical_and(is_nan(candidate.value), logical_not(both)));
}

Best select_best(const Best& candidate, const Best& best) {
  const Value win = wins(candidate, best);
  return {where(win, candidate.value, best.value), where(win, candidate.index, best.index)};
}

/// Maxima of the windows along `dim`. Padding loses every tie: its index is the greatest.
Best max_along(const Best& x, int64_t dim, const Windows& w) {
  Builder& b = x.value.builder();
  const Value lowest = b.lowest(x.value.dtype());
  const Value nowhere = b.highest(x.index.dtype());
  const Best padded{pad_for(x.value, dim, w, lowest), pad_for(x.index, dim, w, nowhere)};
  if (w.size <= kMaxUnrolled) {
    Best best;
    for (int64_t k = 0; k < w.size; ++k) {
      const Best next{element(padded.value, dim, w, k), element(padded.index, dim, w, k)};
      best = k == 0 ? next : select_best(next, best);
    }
    return best;
  }
  Window window;
  const int64_t rank = x.value.rank();
  window.size = window.strides = window.window_dilation = Dims(rank, 1);
  window.size[dim] = w.size;
  window.strides[dim] = w.stride;
  window.window_dilation[dim] = w.dilation;
  const Values operands{
      slice_dim(padded.value, dim, 0, w.position(w.count - 1, w.size - 1) + w.pad + 1),
      slice_dim(padded.index, dim, 0, w.position(w.count - 1, w.size - 1) + w.pad + 1)};
  const Values inits{lowest, nowhere};
  const Values found =
      b.reduce_window(operands, inits, window, [](Builder&, std::span<const Value> args) -> Values {
        const Best best = select_best({args[2], args[3]}, {args[0], args[1]});
        return {best.value, best.index};
      });
  return {found[0], found[1]};
}

/// The flat index in the plane of every element.
Value plane_index(Builder& b, const Dims& dims, size_t n) {
  const int64_t rank = static_cast<int64_t>(dims.size());
  const int64_t plane = plane_size(dims, n);
  Dims plane_dims(rank, 1);
  for (size_t i = rank - n; i < dims.size(); ++i) plane_dims[i] = dims[i];
  const Value flat = b.iota({index_dtype(plane), {plane}}, 0);
  return broadcast_to(reshape(flat, plane_dims), dims);
}

/// (self, kernel_size, stride, padding, dilation, ceil_mode) -> values, indices in the plane
template <size_t n>
Values max_pool(Context& ctx) {
  const Value x = ctx.tensor(0);
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out(0)), ctx.b.zeros(ctx.out(1))};
  const std::vector<Windows> windows = windows_of(
      ctx, n, {.kernel = 1, .stride = 2, .pad = 3, .dilation = 4}, x.dims(), ctx.out().dims);
  Best best{x, plane_index(ctx.b, x.dims(), n)};
  // Dimension by dimension, the innermost first: with the flat index as tie-break the order is the
  // order of a scan over the whole window.
  for (size_t i = n; i-- > 0;) {
    best = max_along(best, x.rank() - static_cast<int64_t>(n - i), windows[i]);
  }
  return {best.value, best.index};
}

/// Combines `values` with zeros of `dims` at flat positions of their planes.
Value scatter_planes(Value values, Value index, const Dims& dims, size_t n,
                     const stablehlo::Body& body) {
  Builder& b = values.builder();
  const int64_t planes = stablehlo::numel(Dims(dims.begin(), dims.end() - static_cast<int64_t>(n)));
  const int64_t plane = plane_size(dims, n);
  if (planes * plane == 0 || values.numel() == 0) return b.zeros({values.dtype(), dims});
  const int64_t count = values.numel() / planes;
  stablehlo::ScatterDims numbers;
  numbers.inserted_window_dims = {1};
  numbers.input_batching_dims = {0};
  numbers.scatter_indices_batching_dims = {0};
  numbers.scatter_dims_to_operand_dims = {1};
  numbers.index_vector_dim = 2;
  const Value combined =
      b.scatter(b.zeros({values.dtype(), {planes, plane}}), reshape(index, {planes, count}),
                reshape(values, {planes, count}), numbers, body);
  return reshape(combined, dims);
}

/// The gradient of values taken at flat positions of planes.
Value add_to_planes(Value grad, Value index, const Dims& dims, size_t n) {
  const auto add = [](Builder&, std::span<const Value> args) -> Values {
    return {args[0] + args[1]};
  };
  return scatter_planes(convert(grad, Context::compute_dtype(grad.dtype())), index, dims, n, add);
}

/// Calls visit(k) for every element k of an n-dimensional window.
template <class Visit>
void for_each_element(const std::vector<Windows>& windows, Visit visit) {
  Dims k(windows.size(), 0);
  while (true) {
    visit(k);
    size_t i = windows.size();
    while (i > 0 && ++k[i - 1] == windows[i - 1].size) k[--i] = 0;
    if (i == 0) return;
  }
}

/// (grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices)
template <size_t n>
Values max_pool_backward(Context& ctx) {
  const Value grad = ctx.tensor(0);
  const Dims& dims = ctx.out().dims;
  const int64_t rank = static_cast<int64_t>(dims.size());
  if (grad.numel() == 0) return {ctx.b.zeros(ctx.out())};
  const std::vector<Windows> windows =
      windows_of(ctx, n, {.kernel = 2, .stride = 3, .pad = 4, .dilation = 5}, dims, grad.dims());
  int64_t elements = 1;
  for (const Windows& w : windows) elements *= w.size;
  if (elements > kMaxPlaced) {
    const Value index = ctx.checked_index(ctx.tensor(7), plane_size(dims, n), 0, false);
    return {add_to_planes(grad, index, dims, n)};
  }
  // Each element of the windows in turn: the gradient goes back to where the maximum was it.
  const DType dtype = index_dtype(plane_size(dims, n));
  const Value index = convert(ctx.tensor(7), dtype);
  const Value wide = convert(grad, Context::compute_dtype(grad.dtype()));
  Value sum;
  for_each_element(windows, [&](const Dims& k) {
    Value flat;
    for (size_t i = 0; i < n; ++i) {
      const int64_t dim = rank - static_cast<int64_t>(n - i);
      const Value at = positions(ctx.b, windows[i], k[i], dim, rank, dtype);
      flat = flat ? flat * static_cast<double>(dims[dim]) + at : at;
    }
    Value part = where(eq(index, flat), wide, zeros_like(wide));
    for (size_t i = 0; i < n; ++i) {
      const int64_t dim = rank - static_cast<int64_t>(n - i);
      part = place(part, dim, windows[i], k[i], dims[dim]);
    }
    sum = sum ? sum + part : part;
  });
  return {sum};
}

// ---- averages

/// How many elements count in each window along one dimension.
std::vector<double> divisors(const Windows& w, int64_t size, bool count_include_pad) {
  std::vector<double> counts(w.count);
  for (int64_t o = 0; o < w.count; ++o) {
    int64_t first = w.position(o, 0);
    int64_t end = std::min(first + w.size, size + w.pad);
    if (!count_include_pad) {
      first = std::max<int64_t>(first, 0);
      end = std::min(end, size);
    }
    // A window with nothing to count has the sum 0: any divisor but 0 serves.
    counts[o] = static_cast<double>(std::max<int64_t>(end - first, 1));
  }
  return counts;
}

/// x (in the shape of the output) divided by the number of elements of each window.
Value divide_by_count(Value x, const std::vector<Windows>& windows, const Dims& input,
                      bool count_include_pad, std::optional<int64_t> divisor) {
  if (divisor) return x / static_cast<double>(*divisor);
  const int64_t rank = x.rank();
  double uniform = 1.0;
  Value varying;
  for (size_t i = 0; i < windows.size(); ++i) {
    const int64_t dim = rank - static_cast<int64_t>(windows.size() - i);
    const std::vector<double> counts = divisors(windows[i], input[dim], count_include_pad);
    if (std::all_of(counts.begin(), counts.end(), [&](double c) { return c == counts[0]; })) {
      uniform *= counts[0];
      continue;
    }
    Dims dims(rank, 1);
    dims[dim] = windows[i].count;
    const Value counted = reshape(x.builder().constant_floats(x.dtype(), counts), dims);
    varying = varying ? varying * counted : counted;
  }
  return varying ? x / (varying * uniform) : x / uniform;
}

/// Sums by windows that may also be spread out (base dilation), which gives the gradient.
Value window_sums(Value x, const Window& window) {
  return x.builder().reduce_window(x, x.builder().constant_int(x.dtype(), 0), window, "add");
}

std::optional<int64_t> divisor_of(Context& ctx, size_t i) {
  return ctx.has(i) ? std::optional(ctx.integer(i)) : std::nullopt;
}

/// (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
template <size_t n>
Values avg_pool(Context& ctx) {
  const Value x = convert(ctx.tensor(0), Context::compute_dtype(ctx.tensor(0).dtype()));
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const std::vector<Windows> windows =
      windows_of(ctx, n, {.kernel = 1, .stride = 2, .pad = 3}, x.dims(), ctx.out().dims);
  Window window;
  window.size = window.strides = Dims(x.rank(), 1);
  window.pad_low = window.pad_high = Dims(x.rank(), 0);
  for (size_t i = 0; i < n; ++i) {
    const int64_t dim = x.rank() - static_cast<int64_t>(n - i);
    const Windows& w = windows[i];
    window.size[dim] = w.size;
    window.strides[dim] = w.stride;
    window.pad_low[dim] = w.pad;
    window.pad_high[dim] = w.pad_high(x.dim(dim));
  }
  return {divide_by_count(window_sums(x, window), windows, x.dims(), ctx.flag_or(5, true),
                          divisor_of(ctx, 6))};
}

/// (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
/// divisor_override)
template <size_t n>
Values avg_pool_backward(Context& ctx) {
  const Value grad = convert(ctx.tensor(0), Context::compute_dtype(ctx.tensor(0).dtype()));
  const Dims& dims = ctx.out().dims;
  if (grad.numel() == 0) return {ctx.b.zeros(ctx.out())};
  const std::vector<Windows> windows =
      windows_of(ctx, n, {.kernel = 2, .stride = 3, .pad = 4}, dims, grad.dims());
  // Input i takes from every window that covers it: those windows lie in a window of the gradient
  // spread out by the stride.
  Window window;
  window.size = window.base_dilation = Dims(grad.rank(), 1);
  window.pad_low = window.pad_high = Dims(grad.rank(), 0);
  for (size_t i = 0; i < n; ++i) {
    const int64_t dim = grad.rank() - static_cast<int64_t>(n - i);
    const Windows& w = windows[i];
    window.size[dim] = w.size;
    window.base_dilation[dim] = w.stride;
    window.pad_low[dim] = w.size - 1 - w.pad;
    window.pad_high[dim] = dims[dim] - w.position(w.count - 1, 0) - 1;
  }
  const Value shares = divide_by_count(grad, windows, dims, ctx.flag(6), divisor_of(ctx, 7));
  return {window_sums(shares, window)};
}

// ---- adaptive: window o of O over a size I is [floor(o * I / O), ceil((o + 1) * I / O))

int64_t adaptive_start(int64_t o, int64_t outputs, int64_t size) { return o * size / outputs; }
int64_t adaptive_end(int64_t o, int64_t outputs, int64_t size) {
  return ((o + 1) * size + outputs - 1) / outputs;
}

Taps adaptive_taps(int64_t outputs, int64_t size) {
  Taps rows(outputs);
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t i = adaptive_start(o, outputs, size); i < adaptive_end(o, outputs, size); ++i) {
      rows[o].push_back({i, 1.0});
    }
  }
  return rows;
}

/// x divided by the sizes of the adaptive windows along `dim`.
Value divide_adaptive(Value x, int64_t dim, int64_t outputs, int64_t size) {
  std::vector<double> counts(outputs);
  for (int64_t o = 0; o < outputs; ++o) {
    counts[o] =
        static_cast<double>(adaptive_end(o, outputs, size) - adaptive_start(o, outputs, size));
  }
  Dims dims(x.rank(), 1);
  dims[dim] = outputs;
  return x / reshape(x.builder().constant_floats(x.dtype(), counts), dims);
}

/// Sums of the adaptive windows along `dim`: a reduction where the windows do not overlap.
Value adaptive_sums(Value x, int64_t dim, int64_t outputs) {
  const int64_t size = x.dim(dim);
  if (outputs == 0 || size % outputs != 0) return apply_taps(x, dim, adaptive_taps(outputs, size));
  Dims split = x.dims();
  split[dim] = outputs;
  split.insert(split.begin() + dim + 1, size / outputs);
  return reduce_sum(reshape(x, split), {dim + 1});
}

/// The transpose of adaptive_sums.
Value adaptive_spread(Value x, int64_t dim, int64_t size) {
  const int64_t outputs = x.dim(dim);
  if (size % outputs == 0) {
    Dims indices(size);
    for (int64_t i = 0; i < size; ++i) indices[i] = i / (size / outputs);
    return take(x, dim, indices);
  }
  return apply_taps(x, dim, transposed(adaptive_taps(outputs, size), size));
}

/// (self, output_size)
template <size_t n>
Values adaptive_avg_pool(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Dims& dims = ctx.out().dims;
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  Value sum = convert(x, Context::compute_dtype(x.dtype()));
  for (int64_t dim = x.rank() - 1; dim >= x.rank() - static_cast<int64_t>(n); --dim) {
    sum = divide_adaptive(adaptive_sums(sum, dim, dims[dim]), dim, dims[dim], x.dim(dim));
  }
  return {sum};
}

/// (grad_output, self)
template <size_t n>
Values adaptive_avg_pool_backward(Context& ctx) {
  const Value grad = ctx.tensor(0);
  const Dims& dims = ctx.out().dims;
  if (grad.numel() == 0 || ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  Value spread = convert(grad, Context::compute_dtype(grad.dtype()));
  for (int64_t dim = grad.rank() - static_cast<int64_t>(n); dim < grad.rank(); ++dim) {
    const Value share = divide_adaptive(spread, dim, grad.dim(dim), dims[dim]);
    spread = adaptive_spread(share, dim, dims[dim]);
  }
  return {spread};
}

/// Maxima of the adaptive windows along `dim`.
Best adaptive_max_along(const Best& x, int64_t dim, int64_t outputs) {
  const int64_t size = x.value.dim(dim);
  if (size % outputs == 0) {
    const int64_t each = size / outputs;
    return max_along(x, dim, {.size = each, .stride = each, .count = outputs});
  }
  int64_t longest = 0;
  for (int64_t o = 0; o < outputs; ++o) {
    longest = std::max(longest, adaptive_end(o, outputs, size) - adaptive_start(o, outputs, size));
  }
  // Short windows are filled up with their last element, which changes no maximum.
  Dims indices;
  for (int64_t o = 0; o < outputs; ++o) {
    for (int64_t k = 0; k < longest; ++k) {
      indices.push_back(
          std::min(adaptive_start(o, outputs, size) + k, adaptive_end(o, outputs, size) - 1));
    }
  }
  const Best windows{take(x.value, dim, indices), take(x.index, dim, indices)};
  return max_along(windows, dim, {.size = longest, .stride = longest, .count = outputs});
}

/// (self, output_size) -> values, indices in the plane
template <size_t n>
Values adaptive_max_pool(Context& ctx) {
  const Value x = ctx.tensor(0);
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out(0)), ctx.b.zeros(ctx.out(1))};
  Best best{x, plane_index(ctx.b, x.dims(), n)};
  for (int64_t dim = x.rank() - 1; dim >= x.rank() - static_cast<int64_t>(n); --dim) {
    best = adaptive_max_along(best, dim, ctx.out().dims[dim]);
  }
  return {best.value, best.index};
}

/// (grad_output, self, indices)
template <size_t n>
Values adaptive_max_pool_backward(Context& ctx) {
  const Dims& dims = ctx.out().dims;
  const Value index = ctx.checked_index(ctx.tensor(2), plane_size(dims, n), 0, false);
  return {add_to_planes(ctx.tensor(0), index, dims, n)};
}

/// (self, indices, output_size, ...)
template <size_t n>
Values max_unpool(Context& ctx) {
  const Dims& dims = ctx.out().dims;
  const Value index = ctx.checked_index(ctx.tensor(1), plane_size(dims, n), 0, false);
  const auto replace = [](Builder&, std::span<const Value> args) -> Values { return {args[1]}; };
  return {scatter_planes(ctx.tensor(0), index, dims, n, replace)};
}

}  // namespace

Table pooling_table() {
  return {
      {.name = "aten::max_pool2d_with_indices", .lower = max_pool<2>},
      {.name = "aten::max_pool3d_with_indices", .lower = max_pool<3>},
      {.name = "aten::max_pool2d_with_indices_backward", .lower = max_pool_backward<2>},
      {.name = "aten::max_pool3d_with_indices_backward", .lower = max_pool_backward<3>},
      {.name = "aten::avg_pool2d", .lower = avg_pool<2>},
      {.name = "aten::avg_pool3d", .lower = avg_pool<3>},
      {.name = "aten::avg_pool2d_backward", .lower = avg_pool_backward<2>},
      {.name = "aten::avg_pool3d_backward", .lower = avg_pool_backward<3>},
      {.name = "aten::_adaptive_avg_pool2d", .lower = adaptive_avg_pool<2>},
      {.name = "aten::_adaptive_avg_pool3d", .lower = adaptive_avg_pool<3>},
      {.name = "aten::_adaptive_avg_pool2d_backward", .lower = adaptive_avg_pool_backward<2>},
      {.name = "aten::_adaptive_avg_pool3d_backward", .lower = adaptive_avg_pool_backward<3>},
      {.name = "aten::adaptive_max_pool2d", .lower = adaptive_max_pool<2>},
      {.name = "aten::adaptive_max_pool3d", .lower = adaptive_max_pool<3>},
      {.name = "aten::adaptive_max_pool2d_backward", .lower = adaptive_max_pool_backward<2>},
      {.name = "aten::adaptive_max_pool3d_backward", .lower = adaptive_max_pool_backward<3>},
      {.name = "aten::max_unpool2d", .lower = max_unpool<2>},
      {.name = "aten::max_unpool3d", .lower = max_unpool<3>},
  };
}

}  // namespace torch_tpu::lowering
