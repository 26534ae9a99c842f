// Fractional max pooling: windows of one size whose places a random number decides.
#include "lowering/families.h"
#include "lowering/gather_scatter.h"
#include "lowering/reduce.h"
#include "lowering/taps.h"

namespace torch_tpu::lowering {
namespace {

/// Sizes of the pooled dimensions of a tensor.
Dims pooled_dims(const Dims& dims, size_t n) {
  return {dims.end() - static_cast<int64_t>(n), dims.end()};
}

int64_t planes_of(const Dims& dims, size_t n) {
  return stablehlo::numel(Dims(dims.begin(), dims.end() - static_cast<int64_t>(n)));
}

/// Where the windows of a dimension begin, [planes, count]: PyTorch's numbers, which it computes in
/// the dtype of the samples; `sample` is [planes, 1].
Value window_starts(Value sample, int64_t size, int64_t count, int64_t kernel) {
  Builder& b = sample.builder();
  const Value last = b.constant_int(DType::S64, size - kernel, {sample.dim(0), 1});
  if (count == 1) return last;
  const DType dtype = sample.dtype(), compute = Context::compute_dtype(dtype);
  const auto rounded = [&](Value x) { return cast(cast(x, dtype), compute); };
  const Value alpha = rounded(b.constant(compute, static_cast<double>(size - kernel)) /
                              static_cast<double>(count - 1));
  const Dims dims{sample.dim(0), count - 1};
  const Value u = broadcast_to(cast(sample, compute), dims);
  const auto scaled = [&](Value x) {
    return cast(rounded(x * broadcast_to(alpha, dims)), DType::S64);
  };
  const Value moved = scaled(rounded(b.iota({compute, dims}, 1) + u));
  return b.concatenate(Values{moved - scaled(u), last}, 1);
}

/// Arguments: self, kernel_size, output_size, random_samples. Results: values and flat positions.
template <size_t n>
Values fractional_max_pool(Context& ctx) {
  const Value x = ctx.tensor(0), samples = ctx.tensor(3);
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out(0)), ctx.b.zeros(ctx.out(1))};
  const Dims kernel = expand_ints(ctx.ints(1), n), size = pooled_dims(x.dims(), n);
  const Dims count = pooled_dims(ctx.out().dims, n);
  const int64_t planes = planes_of(x.dims(), n);
  // Those of the first batch, if the input has no batch dimension and there are more.
  const Value all_samples =
      ctx.b.reshape(samples, {samples.numel() / static_cast<int64_t>(n), static_cast<int64_t>(n)});
  const Value sample = slice_dim(all_samples, 0, 0, planes);
  // [planes, windows..., elements...]: one dimension of each for every pooled dimension.
  Dims dims{planes};
  dims.insert(dims.end(), count.begin(), count.end());
  dims.insert(dims.end(), kernel.begin(), kernel.end());
  Value position = ctx.b.zeros({DType::S64, dims});
  int64_t stride = 1;
  for (size_t i = n; i-- > 0;) {
    // In two dimensions PyTorch takes the samples in the order of x and y.
    const auto which = static_cast<int64_t>(n == 2 ? 1 - i : i);
    const Value start =
        window_starts(slice_dim(sample, 1, which, which + 1), size[i], count[i], kernel[i]);
    Dims shape(dims.size(), 1);
    shape[0] = planes;
    shape[1 + i] = count[i];
    const Value element = ctx.b.iota({DType::S64, dims}, static_cast<int64_t>(1 + n + i));
    const Value at = broadcast_to(ctx.b.reshape(start, shape), dims) + element;
    position = position + at * static_cast<double>(stride);
    stride *= size[i];
  }
  const int64_t windows = stablehlo::numel(count), elements = stablehlo::numel(kernel);
  const Value flat = ctx.b.reshape(position, {planes, windows * elements});
  const Value read = gather_along(ctx.b.reshape(x, {planes, stride}), 1, flat);
  const Value values = ctx.b.reshape(read, {planes, windows, elements});
  const Value best = position_of(values, stablehlo::reduce_max(values, {2}, /*keepdim=*/true), 2);
  const Value places = ctx.b.reshape(flat, {planes, windows, elements});
  return {ctx.b.reshape(select_position(values, best, 2), ctx.out(0).dims),
          ctx.b.reshape(select_position(places, best, 2), ctx.out(1).dims)};
}

/// Arguments: grad_output, self, kernel_size, output_size, indices.
template <size_t n>
Values fractional_max_pool_backward(Context& ctx) {
  const Dims& dims = ctx.out().dims;
  const Value grad = ctx.tensor(0);
  if (grad.numel() == 0) return {ctx.b.zeros(ctx.out())};
  const int64_t planes = planes_of(dims, n), plane = stablehlo::numel(pooled_dims(dims, n));
  const Value index = ctx.checked_index(ctx.tensor(4), plane, 0, /*allow_negative=*/false);
  const Dims rows{planes, grad.numel() / planes};
  const Value sums =
      scatter_along(ctx.b.zeros({grad.dtype(), {planes, plane}}), 1, ctx.b.reshape(index, rows),
                    ctx.b.reshape(grad, rows), Combine::Add);
  return {ctx.b.reshape(sums, dims)};
}

}  // namespace

Table fractional_pooling_table() {
  return {
      {"aten::fractional_max_pool2d", fractional_max_pool<2>},
      {"aten::fractional_max_pool3d", fractional_max_pool<3>},
      {"aten::fractional_max_pool2d_backward", fractional_max_pool_backward<2>},
      {"aten::fractional_max_pool3d_backward", fractional_max_pool_backward<3>},
  };
}

}  // namespace torch_tpu::lowering
