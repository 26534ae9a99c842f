// Pooling for the dispatcher: memory formats and result types that PyTorch's meta kernels do not
// give.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

at::Tensor max_unpool2d(const at::Tensor& self, const at::Tensor& indices,
                        c10::SymIntArrayRef output_size) {
  const torch::jit::Stack results =
      native("aten::max_unpool2d", self, indices, C10_AS_INTARRAYREF_SLOW(output_size));
  return results.at(0).toTensor().contiguous(self.suggest_memory_format());
}

at::Tensor fractional_max_pool3d_backward_meta(const at::Tensor&, const at::Tensor& self,
                                               at::IntArrayRef, at::IntArrayRef,
                                               const at::Tensor&) {
  return at::empty(self.sizes(), self.options());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("max_unpool2d", max_unpool2d); }

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("fractional_max_pool3d_backward", fractional_max_pool3d_backward_meta);
}

}  // namespace
}  // namespace torch_tpu::aten
