// Module.to(), and .data = ..., put a tensor of this device into a parameter of the CPU and the
// other way round, so that parameters stay the objects they are and tied weights stay tied.
// PyTorch's own rule knows only the devices of its own tree.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return (tensor.device().is_cpu() || tensor.device().is_privateuseone()) &&
         tensor.key_set().has_any(c10::DispatchKeySet(c10::DispatchKey::Dense)) &&
         !tensor.is_sparse();
}

bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  return is_plain(self) && is_plain(from);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", has_compatible_shallow_copy_type);
}

}  // namespace
}  // namespace torch_tpu::aten
