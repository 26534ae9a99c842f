// Pooling for the dispatcher: a result type that PyTorch's meta kernels do not give.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

at::Tensor fractional_max_pool3d_backward_meta(const at::Tensor&, const at::Tensor& self,
                                               at::IntArrayRef, at::IntArrayRef,
                                               const at::Tensor&) {
  return at::empty(self.sizes(), self.options());
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("fractional_max_pool3d_backward", fractional_max_pool3d_backward_meta);
}

}  // namespace
}  // namespace torch_tpu::aten
