// Random operators that draw by rejection: PyTorch's checks of their numbers, and the result types
// for which it has no meta kernel. The numbers themselves are in csrc/lowering/rejection.cc.
#include <ATen/ExpandUtils.h>
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

using Generator = std::optional<at::Generator>;

void check_floating(const char* name, const at::Tensor& self) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()), "\"", name,
                              "\" not implemented for '", self.scalar_type(), "'");
}

// Results are contiguous, whatever the meta kernels say.

at::Tensor poisson(const at::Tensor& self, Generator generator) {
  check_floating("poisson_cpu", self);
  TORCH_CHECK(self.numel() == 0 || self.min().ge(0).item<bool>(),
              "invalid Poisson rate, expected rate to be non-negative");
  return native("aten::poisson", self.contiguous(), generator).at(0).toTensor();
}

at::Tensor standard_gamma(const at::Tensor& self, Generator generator) {
  check_floating("gamma_cpu", self);
  return native("aten::_standard_gamma", self.contiguous(), generator).at(0).toTensor();
}

at::Tensor like(const at::Tensor& self) { return at::empty(self.sizes(), self.options()); }

at::Tensor binomial_meta(const at::Tensor& count, const at::Tensor& prob, Generator) {
  check_floating("binomial_cpu", count);
  TORCH_CHECK(count.scalar_type() == prob.scalar_type(), "Found dtype ", prob.scalar_type(),
              " but expected ", count.scalar_type());
  return at::empty(at::infer_size(count.sizes(), prob.sizes()), count.options());
}

at::Tensor dirichlet_meta(const at::Tensor& self, Generator) {
  check_floating("dirichlet", self);
  return like(self);
}

at::Tensor gamma_grad_meta(const at::Tensor& self, const at::Tensor&) {
  check_floating("_standard_gamma_grad_cpu", self);
  return like(self);
}

at::Tensor dirichlet_grad_meta(const at::Tensor& x, const at::Tensor&, const at::Tensor&) {
  check_floating("_dirichlet_grad_cpu", x);
  return like(x);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("poisson", poisson);
  m.impl("_standard_gamma", standard_gamma);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("binomial", binomial_meta);
  m.impl("_sample_dirichlet", dirichlet_meta);
  m.impl("_standard_gamma_grad", gamma_grad_meta);
  m.impl("_dirichlet_grad", dirichlet_grad_meta);
}

}  // namespace
}  // namespace torch_tpu::aten
