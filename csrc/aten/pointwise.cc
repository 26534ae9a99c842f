// Pointwise operators: the random activation, and the result types of those without a meta kernel.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

// ---- rrelu: a random slope for each element that is not positive, kept in `noise` for the
// backward

at::Tensor rrelu_with_noise(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                            const at::Scalar& upper, bool training,
                            std::optional<at::Generator> generator) {
  TORCH_CHECK(self.sym_sizes() == noise.sym_sizes(),
              "noise tensor shape must match self tensor shape. Got self.shape = ",
              self.sym_sizes(), " noise.shape = ", noise.sym_sizes());
  const double low = lower.to<double>(), high = upper.to<double>();
  if (!training) return at::leaky_relu(self, (low + high) / 2);
  const at::Tensor slope = at::empty_like(self).uniform_(low, high, std::move(generator));
  noise.copy_(at::where(self.le(0), slope, at::ones_like(slope)));
  return self.mul(noise);
}

at::Tensor& rrelu_with_noise_(at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                              const at::Scalar& upper, bool training,
                              std::optional<at::Generator> generator) {
  return self.copy_(rrelu_with_noise(self, noise, lower, upper, training, std::move(generator)));
}

at::Tensor& rrelu_with_noise_out(const at::Tensor& self, at::Tensor& noise, const at::Scalar& lower,
                                 const at::Scalar& upper, bool training,
                                 std::optional<at::Generator> generator, at::Tensor& out) {
  const at::Tensor result =
      rrelu_with_noise(self, noise, lower, upper, training, std::move(generator));
  out.resize_(result.sizes());
  return out.copy_(result);
}

/// Real zeros: the special tensor that PyTorch's own devices give here only saves memory.
at::Tensor efficient_zeros(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype,
                           std::optional<at::Layout> layout, std::optional<at::Device> device,
                           std::optional<bool> pin_memory) {
  return at::zeros_symint(size, dtype, layout, device, pin_memory);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("rrelu_with_noise", rrelu_with_noise);
  m.impl("rrelu_with_noise_", rrelu_with_noise_);
  m.impl("rrelu_with_noise.out", rrelu_with_noise_out);
  m.impl("_efficientzerotensor", efficient_zeros);
}

// ---- Meta

at::Tensor multi_margin_loss_backward_meta(const at::Tensor&, const at::Tensor& self,
                                           const at::Tensor&, const at::Scalar&, const at::Scalar&,
                                           const std::optional<at::Tensor>&, int64_t) {
  return at::empty_like(self);
}

at::Tensor multilabel_margin_loss_backward_meta(const at::Tensor&, const at::Tensor& self,
                                                const at::Tensor&, int64_t, const at::Tensor&) {
  return at::empty_like(self);
}

at::Tensor glu_jvp_meta(const at::Tensor& glu, const at::Tensor&, const at::Tensor&, int64_t) {
  return at::empty_like(glu);
}

at::Tensor glu_backward_jvp_meta(const at::Tensor&, const at::Tensor&, const at::Tensor& x,
                                 const at::Tensor&, const at::Tensor&, int64_t) {
  return at::empty_like(x);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("multi_margin_loss_backward", multi_margin_loss_backward_meta);
  m.impl("multilabel_margin_loss_backward", multilabel_margin_loss_backward_meta);
  m.impl("glu_jvp", glu_jvp_meta);
  m.impl("glu_backward_jvp", glu_backward_jvp_meta);
}

}  // namespace
}  // namespace torch_tpu::aten
