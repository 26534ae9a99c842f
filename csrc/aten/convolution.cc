// Convolutions: PyTorch's checks and memory formats, which its meta kernels leave out for a device
// like ours.
#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/meta.h"
#include "aten/native.h"

namespace torch_tpu::aten {
namespace {

struct Geometry {
  at::IntArrayRef stride, padding, dilation;
  bool transposed;
  at::IntArrayRef output_padding;
  int64_t groups;
};

/// Lists may have one entry for all spatial dimensions.
int64_t at_dim(at::IntArrayRef list, int64_t i) { return list.size() == 1 ? list[0] : list[i]; }

bool all_at_least(at::IntArrayRef list, int64_t least) {
  return std::all_of(list.begin(), list.end(), [least](int64_t value) { return value >= least; });
}

/// What a kernel covers, dilated.
int64_t reach(const at::Tensor& weight, const Geometry& g, int64_t i) {
  return at_dim(g.dilation, i) * (weight.size(i + 2) - 1) + 1;
}

void check_numbers(const at::Tensor& input, const at::Tensor& weight, const Geometry& g) {
  TORCH_CHECK(weight.dim() > 2, "weight should have at least three dimensions");
  TORCH_CHECK(all_at_least(g.padding, 0), "negative padding is not supported");
  TORCH_CHECK(all_at_least(g.output_padding, 0), "negative output_padding is not supported");
  TORCH_CHECK(all_at_least(g.stride, 1), "non-positive stride is not supported");
  TORCH_CHECK(all_at_least(g.dilation, 1), "dilation should be greater than zero");
  TORCH_CHECK(g.groups > 0, "expected groups to be greater than 0, but got groups=", g.groups);
  TORCH_CHECK(weight.dim() == input.dim(), "Expected ", weight.dim(), "-dimensional input for ",
              weight.dim(), "-dimensional weight ", weight.sizes(), ", but got ", input.dim(),
              "-dimensional input of size ", input.sizes(), " instead");
  TORCH_CHECK(weight.size(0) >= g.groups, "Given groups=", g.groups,
              ", expected weight to be at least ", g.groups,
              " at dimension 0, but got weight of size ", weight.sizes(), " instead");
  TORCH_CHECK(weight.size(0) % g.groups == 0, "Given groups=", g.groups,
              ", expected weight to be divisible by ", g.groups,
              " at dimension 0, but got weight of size ", weight.sizes(), " instead");
}

void check_bias(const at::Tensor& bias, const at::Tensor& weight, int64_t outputs) {
  TORCH_CHECK(!bias.defined() || (bias.dim() == 1 && bias.size(0) == outputs),
              "Given weight of size ", weight.sizes(), ", expected bias to be 1-dimensional with ",
              outputs, " elements, but got bias of size ", bias.sizes(), " instead");
}

void check_fits(const at::Tensor& input, const at::Tensor& weight, const Geometry& g) {
  std::vector<int64_t> padded, kernel;
  bool fits = true;
  for (int64_t i = 0; i < input.dim() - 2; ++i) {
    padded.push_back(input.size(i + 2) + 2 * at_dim(g.padding, i));
    kernel.push_back(reach(weight, g, i));
    fits = fits && padded.back() >= kernel.back();
  }
  TORCH_CHECK(fits, "Calculated padded input size per channel: (", c10::Join(" x ", padded),
              "). Kernel size: (", c10::Join(" x ", kernel),
              "). Kernel size can't be greater than actual input size");
}

/// One-dimensional inputs are two-dimensional ones to the CPU.
std::vector<int64_t> shape_of_check(const at::Tensor& input) {
  std::vector<int64_t> sizes = input.sizes().vec();
  if (input.dim() == 3) sizes.insert(sizes.begin() + 2, 1);
  return sizes;
}

/// The checks of at::convolution, and the shape of its result.
std::vector<int64_t> checked_output_size(const at::Tensor& input, const at::Tensor& weight,
                                         const at::Tensor& bias, const Geometry& g) {
  check_numbers(input, weight, g);
  TORCH_CHECK(input.scalar_type() == weight.scalar_type(), "Input type (", input.scalar_type(),
              ") and weight type (", weight.scalar_type(), ") should be the same");
  TORCH_CHECK(!bias.defined() || bias.scalar_type() == input.scalar_type(), "Input type (",
              input.scalar_type(), ") and bias type (", bias.scalar_type(), ") should be the same");
  const int64_t channels = g.transposed ? weight.size(0) : weight.size(1) * g.groups;
  TORCH_CHECK(input.size(1) == channels, "Given ",
              g.transposed ? "transposed=" : "groups=", g.transposed ? 1 : g.groups,
              ", weight of size ", weight.sizes(), ", expected input", input.sizes(), " to have ",
              channels, " channels, but got ", input.size(1), " channels instead");
  const int64_t outputs = g.transposed ? weight.size(1) * g.groups : weight.size(0);
  check_bias(bias, weight, outputs);
  if (!g.transposed) check_fits(input, weight, g);
  TORCH_CHECK(input.numel() > 0 || input.size(0) == 0 || input.size(1) == 0,
              "Only zero batch or zero channel inputs are supported, but got input shape: ",
              shape_of_check(input));
  std::vector<int64_t> size{input.size(0), outputs};
  for (int64_t i = 0; i < input.dim() - 2; ++i) {
    const int64_t in = input.size(i + 2), pad = 2 * at_dim(g.padding, i);
    const int64_t stride = at_dim(g.stride, i), dilation = at_dim(g.dilation, i);
    if (g.transposed) {
      const int64_t extra = at_dim(g.output_padding, i);
      TORCH_CHECK(
          extra < stride || extra < dilation,
          "output padding must be smaller than either stride or dilation, but got output_padding ",
          extra, ", stride ", stride, ", dilation ", dilation);
      size.push_back((in - 1) * stride - pad + reach(weight, g, i) + extra);
      TORCH_CHECK(size.back() > 0, "Given input size per channel: ", input.sizes().slice(2),
                  ". Calculated output size per channel is too small: ", size.back(),
                  " at dimension ", i);
    } else {
      size.push_back((in + pad - reach(weight, g, i)) / stride + 1);
    }
  }
  return size;
}

/// As on the CPU: channels last if either operand is; in three dimensions only oneDNN's dtypes.
at::MemoryFormat memory_format(const at::Tensor& input, const at::Tensor& weight) {
  const at::ScalarType dtype = input.scalar_type();
  const bool one_dnn = dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf;
  if (input.dim() == 5 && !one_dnn) return at::MemoryFormat::Contiguous;
  const at::MemoryFormat format = input.suggest_memory_format();
  return format == at::MemoryFormat::Contiguous ? weight.suggest_memory_format() : format;
}

at::Tensor empty_in(at::IntArrayRef size, const at::Tensor& like, at::MemoryFormat format) {
  return at::empty(size, like.options().memory_format(format));
}

at::Tensor convolution_meta(const at::Tensor& input, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, at::IntArrayRef stride,
                            at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                            at::IntArrayRef output_padding, int64_t groups) {
  const Geometry g{stride, padding, dilation, transposed, output_padding, groups};
  return empty_in(checked_output_size(input, weight, bias.value_or(at::Tensor()), g), input,
                  memory_format(input, weight));
}

using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Gradients convolution_backward_meta(const at::Tensor& grad, const at::Tensor& input,
                                    const at::Tensor& weight, at::OptionalIntArrayRef,
                                    at::IntArrayRef stride, at::IntArrayRef padding,
                                    at::IntArrayRef dilation, bool transposed,
                                    at::IntArrayRef output_padding, int64_t groups,
                                    std::array<bool, 3> wanted) {
  const Geometry g{stride, padding, dilation, transposed, output_padding, groups};
  const std::vector<int64_t> size = checked_output_size(input, weight, {}, g);
  TORCH_CHECK(grad.sizes() == at::IntArrayRef(size), "Expected a gradient of size ", size,
              " for input ", input.sizes(), " and weight ", weight.sizes(), ", but got ",
              grad.sizes());
  const at::MemoryFormat format = memory_format(input, weight);
  return {wanted[0] ? empty_in(input.sizes(), input, format) : at::Tensor(),
          wanted[1] ? empty_in(weight.sizes(), weight, format) : at::Tensor(),
          wanted[2] ? at::empty({grad.size(1)}, grad.options()) : at::Tensor()};
}

/// Which of the CPU's convolutions would refuse a call, and with which words, is for it to say.
void convolution(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  try {
    run_native("torch_tpu::convolution", *stack);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error&) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", "");
    const size_t count = op.schema().arguments().size();
    raise_cpu_error(op, c10::ArrayRef<c10::IValue>(stack->data() + (stack->size() - count), count));
    throw;
  }
}

void convolution_backward(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  run_native("torch_tpu::convolution_backward", *stack);
}

/// PyTorch reaches this one only through at::_convolution.
Gradients convolution_backward_overrideable(const at::Tensor& grad, const at::Tensor& input,
                                            const at::Tensor& weight, c10::SymIntArrayRef stride,
                                            c10::SymIntArrayRef padding,
                                            c10::SymIntArrayRef dilation, bool transposed,
                                            c10::SymIntArrayRef output_padding, c10::SymInt groups,
                                            std::array<bool, 3> wanted) {
  return at::convolution_backward_symint(grad, input, weight, std::nullopt, stride, padding,
                                         dilation, transposed, output_padding, std::move(groups),
                                         wanted);
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def(
      "convolution(Tensor input, Tensor weight, Tensor? bias, int[] stride, int[] padding, "
      "int[] dilation, bool transposed, int[] output_padding, int groups) -> Tensor");
  m.def(
      "convolution_backward(Tensor grad_output, Tensor input, Tensor weight, int[]? bias_sizes, "
      "int[] stride, int[] padding, int[] dilation, bool transposed, int[] output_padding, "
      "int groups, bool[3] output_mask) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) {
  m.impl("convolution", convolution_meta);
  m.impl("convolution_backward", convolution_backward_meta);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const auto forward = [] { return torch::CppFunction::makeFromBoxedFunction<&convolution>(); };
  m.impl("convolution", forward());
  m.impl("convolution_overrideable", forward());
  m.impl("convolution_backward",
         torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
  m.impl("convolution_backward_overrideable", convolution_backward_overrideable);
}

}  // namespace
}  // namespace torch_tpu::aten
