// Forms of operators that have a kernel on the CPU while their other forms are composed by PyTorch,
// so that the schemas do not tell that they belong together.
#include <ATen/ScalarOps.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_adaptive_avg_pool2d.h>
#include <ATen/ops/_adaptive_avg_pool3d.h>
#include <ATen/ops/_adaptive_avg_pool3d_backward.h>
#include <ATen/ops/_add_relu.h>
#include <ATen/ops/_batch_norm_with_update.h>
#include <ATen/ops/_native_batch_norm_legit.h>
#include <ATen/ops/tensordot.h>
#include <torch/library.h>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

// ---- narrow_copy

at::Tensor narrow_copy(const at::Tensor& self, int64_t dim, c10::SymInt start, c10::SymInt length) {
  TORCH_CHECK(self.dim() > 0, "narrow() cannot be applied to a 0-dim tensor.");
  return self.narrow_symint(dim, std::move(start), std::move(length))
      .clone(at::MemoryFormat::Contiguous);
}

at::Tensor& narrow_copy_out(const at::Tensor& self, int64_t dim, c10::SymInt start,
                            c10::SymInt length, at::Tensor& output) {
  TORCH_CHECK(self.dtype() == output.dtype());
  const at::Tensor result = narrow_copy(self, dim, std::move(start), std::move(length));
  return output.resize_(result.sizes()).copy_(result);
}

// ---- pooling

at::Tensor& adaptive_avg_pool2d_out(const at::Tensor& self, c10::SymIntArrayRef size,
                                    at::Tensor& out) {
  return write_out(at::_adaptive_avg_pool2d_symint(self, size), out);
}

at::Tensor& adaptive_avg_pool3d_out(const at::Tensor& self, c10::SymIntArrayRef size,
                                    at::Tensor& out) {
  return write_out(at::_adaptive_avg_pool3d_symint(self, size), out);
}

at::Tensor& adaptive_avg_pool3d_backward_out(const at::Tensor& grad, const at::Tensor& self,
                                             at::Tensor& grad_input) {
  return write_out(at::_adaptive_avg_pool3d_backward(grad, self), grad_input);
}

// ---- batch normalization

using ThreeOuts = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&>;
using FourOuts = std::tuple<at::Tensor&, at::Tensor&, at::Tensor&, at::Tensor&>;

void check_dtype(const at::Tensor& out, const at::Tensor& input) {
  TORCH_CHECK(out.scalar_type() == input.scalar_type(), "expected scalar type ",
              input.scalar_type(), " but found ", out.scalar_type());
}

ThreeOuts native_batch_norm_legit_out(const at::Tensor& input, const OptionalTensor& weight,
                                      const OptionalTensor& bias, at::Tensor& running_mean,
                                      at::Tensor& running_var, bool training, double momentum,
                                      double eps, at::Tensor& out, at::Tensor& mean,
                                      at::Tensor& invstd) {
  check_dtype(out, input);
  const auto results = at::_native_batch_norm_legit(input, weight, bias, running_mean, running_var,
                                                    training, momentum, eps);
  return {write_out(std::get<0>(results), out), write_out(std::get<1>(results), mean),
          write_out(std::get<2>(results), invstd)};
}

FourOuts batch_norm_with_update_out(const at::Tensor& input, const OptionalTensor& weight,
                                    const OptionalTensor& bias, at::Tensor& running_mean,
                                    at::Tensor& running_var, double momentum, double eps,
                                    at::Tensor& out, at::Tensor& mean, at::Tensor& invstd,
                                    at::Tensor& reserve) {
  check_dtype(out, input);
  const auto results =
      at::_batch_norm_with_update(input, weight, bias, running_mean, running_var, momentum, eps);
  return {write_out(std::get<0>(results), out), write_out(std::get<1>(results), mean),
          write_out(std::get<2>(results), invstd), write_out(std::get<3>(results), reserve)};
}

// ---- sums

at::Tensor add_relu(const at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return at::_add_relu(self, at::native::wrapped_scalar_tensor(other), alpha);
}

at::Tensor& add_relu_(at::Tensor& self, const at::Scalar& other, const at::Scalar& alpha) {
  return at::_add_relu_(self, at::native::wrapped_scalar_tensor(other), alpha);
}

/// Row i of the result is the sum of coefficients[i, k] * input[k].
at::Tensor linear_combination(const at::Tensor& input, const at::Tensor& coefficients) {
  return at::tensordot(coefficients, input, {1}, {0});
}

at::Tensor& linear_combination_out(const at::Tensor& input, const at::Tensor& coefficients,
                                   at::Tensor& out) {
  return write_out(linear_combination(input, coefficients), out);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("narrow_copy", narrow_copy);
  m.impl("narrow_copy.out", narrow_copy_out);
  m.impl("adaptive_avg_pool2d.out", adaptive_avg_pool2d_out);
  m.impl("adaptive_avg_pool3d.out", adaptive_avg_pool3d_out);
  m.impl("adaptive_avg_pool3d_backward.grad_input", adaptive_avg_pool3d_backward_out);
  m.impl("_native_batch_norm_legit.out", native_batch_norm_legit_out);
  m.impl("_batch_norm_with_update.out", batch_norm_with_update_out);
  m.impl("_add_relu.Scalar", add_relu);
  m.impl("_add_relu_.Scalar", add_relu_);
  m.impl("_compute_linear_combination", linear_combination);
  m.impl("_compute_linear_combination.out", linear_combination_out);
}

}  // namespace
}  // namespace torch_tpu::aten
