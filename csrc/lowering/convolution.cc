// Convolutions of any number of spatial dimensions, plain and transposed, and their gradients,
// which are convolutions again. Shapes: input [N, C, ...], weight [outputs, C / groups, ...], or
// for a transposed convolution [C, outputs / groups, ...].
#include "lowering/families.h"
#include "lowering/linalg.h"

namespace torch_tpu::lowering {
namespace {

using stablehlo::ConvConfig;
using stablehlo::ConvDims;

struct Geometry {
  Dims stride, padding, dilation;
  bool transposed;
  int64_t groups;
};

size_t spatial_rank(Value x) { return static_cast<size_t>(x.rank()) - 2; }

Dims spatial_dims(size_t n) {
  Dims dims(n);
  for (size_t i = 0; i < n; ++i) dims[i] = static_cast<int64_t>(i) + 2;
  return dims;
}

/// [batch, feature, ...] x [output, input, ...] -> [batch, feature, ...]
ConvDims usual_dims(size_t n) {
  const Dims spatial = spatial_dims(n);
  return {.input_batch = 0,
          .input_feature = 1,
          .kernel_input = 1,
          .kernel_output = 0,
          .output_batch = 0,
          .output_feature = 1,
          .input_spatial = spatial,
          .kernel_spatial = spatial,
          .output_spatial = spatial};
}

/// High padding with which a window of `reach` (dilated size) fits `count` times at `stride` into a
/// dimension of `size` (dilated size) that has low padding. May be negative.
int64_t fitting_pad(int64_t size, int64_t low, int64_t reach, int64_t stride, int64_t count) {
  return (count - 1) * stride + reach - size - low;
}

Value run(Context& ctx, Value x, Value kernel, ConvConfig& config) {
  config.precision = ctx.precision(x.dtype());
  return ctx.b.convolution(x, kernel, config, Context::compute_dtype(x.dtype()));
}

/// The convolution of x with weight [outputs, inputs / groups, ...]; `size` are the spatial sizes
/// of the result.
Value correlate(Context& ctx, Value x, Value weight, const Geometry& g, const Dims& size) {
  const size_t n = spatial_rank(x);
  ConvConfig config;
  config.dims = usual_dims(n);
  config.strides = g.stride;
  config.rhs_dilation = g.dilation;
  config.feature_groups = g.groups;
  for (size_t i = 0; i < n; ++i) {
    const int64_t reach = g.dilation[i] * (weight.dim(i + 2) - 1) + 1;
    config.pad_low.push_back(g.padding[i]);
    config.pad_high.push_back(fitting_pad(x.dim(i + 2), g.padding[i], reach, g.stride[i], size[i]));
  }
  return run(ctx, x, weight, config);
}

/// weight [inputs, outputs / groups, ...] -> [inputs / groups, outputs, ...]: XLA wants all
/// outputs, group by group, in one dimension.
Value gather_outputs(Value weight, int64_t groups) {
  if (groups == 1) return weight;
  Dims split = weight.dims();
  split[0] /= groups;
  split.insert(split.begin(), groups);
  Dims order(split.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::swap(order[0], order[1]);
  Dims joined = weight.dims();
  joined[0] /= groups;
  joined[1] *= groups;
  return reshape(transpose(reshape(weight, split), order), joined);
}

/// The transposed convolution of x with weight [inputs, outputs / groups, ...]: the transpose, as a
/// linear map, of a convolution from spatial `size` to x's.
Value correlate_transposed(Context& ctx, Value x, Value weight, const Geometry& g,
                           const Dims& size) {
  const size_t n = spatial_rank(x);
  ConvConfig config;
  config.dims = usual_dims(n);
  config.dims.kernel_input = 0;
  config.dims.kernel_output = 1;
  config.lhs_dilation = g.stride;
  config.rhs_dilation = g.dilation;
  config.feature_groups = g.groups;
  for (size_t i = 0; i < n; ++i) {
    const int64_t reach = g.dilation[i] * (weight.dim(i + 2) - 1) + 1;
    const int64_t spread = (x.dim(i + 2) - 1) * g.stride[i] + 1;
    const int64_t low = reach - 1 - g.padding[i];
    config.pad_low.push_back(low);
    config.pad_high.push_back(fitting_pad(spread, low, reach, 1, size[i]));
  }
  // XLA on CPU runs a reversed kernel fast, but not a window with the reversal flag.
  const Value reversed = ctx.b.reverse(gather_outputs(weight, g.groups), spatial_dims(n));
  return run(ctx, x, reversed, config);
}

/// The gradient of weight [outputs, inputs / groups, ...] of a convolution from x to grad: the
/// batch is what is summed over, so it takes the place of the features, and grad is the kernel.
Value correlate_for_weight(Context& ctx, Value x, Value grad, const Geometry& g,
                           const Dims& kernel) {
  const size_t n = spatial_rank(x);
  ConvConfig config;
  config.dims = usual_dims(n);
  config.dims.input_batch = 1;
  config.dims.input_feature = 0;
  config.dims.kernel_input = 0;
  config.dims.kernel_output = 1;
  config.dims.output_batch = 1;
  config.dims.output_feature = 0;
  config.strides = g.dilation;
  config.rhs_dilation = g.stride;
  config.batch_groups = g.groups;
  for (size_t i = 0; i < n; ++i) {
    const int64_t reach = (grad.dim(i + 2) - 1) * g.stride[i] + 1;
    config.pad_low.push_back(g.padding[i]);
    config.pad_high.push_back(
        fitting_pad(x.dim(i + 2), g.padding[i], reach, g.dilation[i], kernel[i]));
  }
  return run(ctx, x, grad, config);
}

/// A bilinear map on complex values, from its real one.
template <class Map>
Value bilinear(Value a, Value b, Map map) {
  if (!is_complex(a.dtype())) return map(a, b);
  Builder& builder = a.builder();
  const Value ar = builder.real(a), ai = builder.imag(a);
  const Value br = builder.real(b), bi = builder.imag(b);
  return builder.complex(map(ar, br) - map(ai, bi), map(ar, bi) + map(ai, br));
}

Dims sizes_after(const Dims& dims, size_t first) {
  return Dims(dims.begin() + static_cast<int64_t>(first), dims.end());
}

/// Nothing to sum over or nothing to produce: XLA's convolutions want positive sizes.
bool is_empty(Value a, Value b, const Dims& result) {
  return a.numel() == 0 || b.numel() == 0 || stablehlo::numel(result) == 0;
}

Geometry geometry(Context& ctx, int first, size_t n) {
  const auto expand = [n](const Dims& given) {
    return given.size() == 1 ? Dims(n, given[0]) : given;
  };
  return {.stride = expand(ctx.ints(first)),
          .padding = expand(ctx.ints(first + 1)),
          .dilation = expand(ctx.ints(first + 2)),
          .transposed = ctx.flag(first + 3),
          .groups = ctx.integer(first + 5)};
}

/// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
Values convolution(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Value weight = ctx.tensor(1);
  const Geometry g = geometry(ctx, 3, spatial_rank(x));
  const Dims& dims = ctx.out().dims;
  const Dims size = sizes_after(dims, 2);
  Value y;
  if (is_empty(x, weight, dims)) {
    y = ctx.b.zeros({Context::compute_dtype(x.dtype()), dims});
  } else {
    y = bilinear(x, weight, [&](Value a, Value b) {
      return g.transposed ? correlate_transposed(ctx, a, b, g, size)
                          : correlate(ctx, a, b, g, size);
    });
  }
  if (ctx.has(2)) {
    const Value bias = convert(ctx.tensor(2), y.dtype());
    y = y + ctx.b.broadcast_in_dim(bias, dims, {1});
  }
  return {y};
}

/// (grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding,
/// groups, output_mask) -> gradients of input, weight, bias
Values convolution_backward(Context& ctx) {
  const Value grad = ctx.tensor(0);
  const Value x = ctx.tensor(1);
  const Value weight = ctx.tensor(2);
  const Geometry g = geometry(ctx, 4, spatial_rank(x));
  const std::vector<bool>& wanted = ctx.flags(10);
  const DType dtype = Context::compute_dtype(grad.dtype());
  const Dims size = sizes_after(x.dims(), 2);
  const Dims kernel = sizes_after(weight.dims(), 2);
  Values results(3);
  if (wanted[0]) {
    results[0] = is_empty(grad, weight, x.dims())
                     ? ctx.b.zeros({dtype, x.dims()})
                     : bilinear(grad, conjugate(weight), [&](Value a, Value b) {
                         return g.transposed ? correlate(ctx, a, b, g, size)
                                             : correlate_transposed(ctx, a, b, g, size);
                       });
  }
  if (wanted[1]) {
    // A transposed convolution maps the other way: its input is what the gradient is correlated
    // with.
    results[1] = is_empty(grad, x, weight.dims())
                     ? ctx.b.zeros({dtype, weight.dims()})
                     : bilinear(grad, conjugate(x), [&](Value a, Value b) {
                         return g.transposed ? correlate_for_weight(ctx, a, b, g, kernel)
                                             : correlate_for_weight(ctx, b, a, g, kernel);
                       });
  }
  if (wanted[2]) {
    Dims summed = spatial_dims(spatial_rank(grad));
    summed.insert(summed.begin(), 0);
    results[2] = reduce_sum(convert(grad, dtype), summed);
  }
  return results;
}

}  // namespace

Table convolution_table() {
  return {
      {.name = "torch_tpu::convolution", .lower = convolution, .uses_precision = true},
      {.name = "torch_tpu::convolution_backward",
       .lower = convolution_backward,
       .uses_precision = true},
  };
}

}  // namespace torch_tpu::lowering
