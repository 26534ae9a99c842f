// Running an operator on meta tensors: its checks and the types of its results, by PyTorch's own
// kernels.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <unordered_map>

namespace torch_tpu::aten {

/// Meta tensors that stand for device tensors; the same tensor is always replaced by the same one.
class MetaMap {
 public:
  at::Tensor meta(const at::Tensor& tensor);
  c10::IValue meta(const c10::IValue& value);

 private:
  std::unordered_map<const c10::TensorImpl*, at::Tensor> known_;
};

/// Calls the operator with the arguments (all of them, real tensors) on meta tensors and returns
/// its results. Nothing if the operator has no meta kernel. Throws what PyTorch raises for these
/// arguments.
std::optional<torch::jit::Stack> run_on_meta(const c10::OperatorHandle& op,
                                             c10::ArrayRef<c10::IValue> arguments);

}  // namespace torch_tpu::aten
