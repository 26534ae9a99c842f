// The convolutions that PyTorch's CPU has kernels of its own for, beneath at::convolution. Here all
// are the one convolution.
#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using SymInts = c10::SymIntArrayRef;

/// A weight that was given as a matrix, with its true shape.
at::Tensor unflattened(const at::Tensor& weight, const at::Tensor& self, SymInts kernel) {
  if (weight.dim() != 2) return weight;
  c10::SymDimVector sizes{weight.sym_size(0), self.sym_size(1)};
  sizes.append(kernel.begin(), kernel.end());
  return weight.view_symint(sizes);
}

struct Geometry {
  SymInts stride, padding, dilation, output_padding;
  bool transposed = false;
};

at::Tensor convolve(const at::Tensor& self, const at::Tensor& weight, SymInts kernel,
                    const OptionalTensor& bias, const Geometry& g) {
  const auto spatial = static_cast<int64_t>(kernel.size());
  TORCH_CHECK(self.dim() == spatial + 2 || self.dim() == spatial + 1, "Expected ", spatial + 1,
              "D or ", spatial + 2, "D input, but got a tensor of size ", self.sizes());
  const bool batched = self.dim() == spatial + 2;
  const at::Tensor input = batched ? self : self.unsqueeze(0);
  const at::Tensor result = at::convolution_symint(
      input, g.transposed ? weight : unflattened(weight, input, kernel), bias, g.stride, g.padding,
      g.dilation, g.transposed, g.output_padding, /*groups=*/1);
  return batched ? result : result.squeeze(0);
}

// The arguments that an operator does not have.
const c10::SymInt kOnes[] = {1, 1, 1}, kZeros[] = {0, 0, 0};
SymInts ones(SymInts like) { return {kOnes, like.size()}; }
SymInts zeros(SymInts like) { return {kZeros, like.size()}; }

at::Tensor forward(const at::Tensor& self, const at::Tensor& weight, SymInts kernel,
                   const OptionalTensor& bias, SymInts stride, SymInts padding) {
  return convolve(self, weight, kernel, bias, {stride, padding, ones(kernel), zeros(kernel)});
}

at::Tensor& forward_out(const at::Tensor& self, const at::Tensor& weight, SymInts kernel,
                        const OptionalTensor& bias, SymInts stride, SymInts padding,
                        at::Tensor& out) {
  return write_out(forward(self, weight, kernel, bias, stride, padding), out);
}

at::Tensor dilated(const at::Tensor& self, const at::Tensor& weight, SymInts kernel,
                   const OptionalTensor& bias, SymInts stride, SymInts padding, SymInts dilation) {
  return convolve(self, weight, kernel, bias, {stride, padding, dilation, zeros(kernel)});
}

at::Tensor transposed(const at::Tensor& self, const at::Tensor& weight, SymInts kernel,
                      const OptionalTensor& bias, SymInts stride, SymInts padding,
                      SymInts output_padding, SymInts dilation) {
  return convolve(self, weight, kernel, bias, {stride, padding, dilation, output_padding, true});
}

at::Tensor& transposed_out(const at::Tensor& self, const at::Tensor& weight, SymInts kernel,
                           const OptionalTensor& bias, SymInts stride, SymInts padding,
                           SymInts output_padding, SymInts dilation, at::Tensor& out) {
  return write_out(
      transposed(self, weight, kernel, bias, stride, padding, output_padding, dilation), out);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& grad,
                                                        const at::Tensor& self,
                                                        const at::Tensor& weight, SymInts kernel,
                                                        SymInts stride, SymInts padding,
                                                        std::array<bool, 3> mask) {
  const at::Tensor shaped = unflattened(weight, self, kernel);
  auto [grad_input, grad_weight, grad_bias] = at::convolution_backward_symint(
      grad, self, shaped, c10::SymIntArrayRef{weight.sym_size(0)}, stride, padding, ones(kernel),
      /*transposed=*/false, zeros(kernel), /*groups=*/1, mask);
  if (mask[1]) grad_weight = grad_weight.view_symint(weight.sym_sizes());
  return {grad_input, grad_weight, grad_bias};
}

std::tuple<at::Tensor&, at::Tensor&, at::Tensor&> backward_out(
    const at::Tensor& grad, const at::Tensor& self, const at::Tensor& weight, SymInts kernel,
    SymInts stride, SymInts padding, at::Tensor& grad_input, at::Tensor& grad_weight,
    at::Tensor& grad_bias) {
  const auto [input, weights, bias] =
      backward(grad, self, weight, kernel, stride, padding,
               {grad_input.defined(), grad_weight.defined(), grad_bias.defined()});
  if (input.defined()) write_out(input, grad_input);
  if (weights.defined()) write_out(weights, grad_weight);
  if (bias.defined()) write_out(bias, grad_bias);
  return {grad_input, grad_weight, grad_bias};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_slow_conv2d_forward", forward);
  m.impl("_slow_conv2d_forward.output", forward_out);
  m.impl("_slow_conv2d_backward.output_mask", backward);
  m.impl("_slow_conv2d_backward.grad_input", backward_out);
  m.impl("slow_conv3d_forward", forward);
  m.impl("slow_conv3d_forward.output", forward_out);
  m.impl("slow_conv_dilated2d", dilated);
  m.impl("slow_conv_dilated3d", dilated);
  m.impl("slow_conv_transpose2d", transposed);
  m.impl("slow_conv_transpose2d.out", transposed_out);
  m.impl("slow_conv_transpose3d", transposed);
  m.impl("slow_conv_transpose3d.out", transposed_out);
}

}  // namespace
}  // namespace torch_tpu::aten
