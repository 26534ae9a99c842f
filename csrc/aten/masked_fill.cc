// masked_fill_ of an expanded tensor: deprecated in PyTorch, with a meaning of its own.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/any.h>
#include <torch/library.h>

#include "aten/native.h"

namespace torch_tpu::aten {
namespace {

/// The tensor without its repetitions, and the mask of which element is to be filled through any of
/// them.
std::pair<at::Tensor, at::Tensor> without_repetitions(const at::Tensor& self,
                                                      const at::Tensor& mask) {
  at::Tensor once = self, filled = mask.expand(self.sizes());
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.size(d) <= 1 || self.stride(d) != 0) continue;
    once = once.narrow(d, 0, 1);
    filled = at::any(filled, d, /*keepdim=*/true);
  }
  return {once, filled};
}

at::Tensor& fill(const char* name, at::Tensor& self, const at::Tensor& mask,
                 const c10::IValue& value) {
  if (at::has_internal_overlap(self) != at::MemOverlap::Yes) {
    torch::jit::Stack stack{self, mask, value};
    run_native(name, stack);
    return self;
  }
  TORCH_WARN(
      "Use of masked_fill_ on expanded tensors is deprecated. Please clone() the tensor before "
      "performing this operation. This also applies to advanced indexing e.g. tensor[mask] = "
      "scalar");
  const auto [once, filled] = without_repetitions(self, mask);
  torch::jit::Stack stack{once, filled, value};
  run_native(name, stack);
  return self;
}

at::Tensor& masked_fill_scalar(at::Tensor& self, const at::Tensor& mask, const at::Scalar& value) {
  return fill("aten::masked_fill_.Scalar", self, mask, value);
}

at::Tensor& masked_fill_tensor(at::Tensor& self, const at::Tensor& mask, const at::Tensor& value) {
  return fill("aten::masked_fill_.Tensor", self, mask, value);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("masked_fill_.Scalar", masked_fill_scalar);
  m.impl("masked_fill_.Tensor", masked_fill_tensor);
}

}  // namespace
}  // namespace torch_tpu::aten
