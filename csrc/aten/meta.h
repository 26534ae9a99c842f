// Running an operator without its values, by PyTorch's own kernels: on meta tensors for its checks
// and the types of its results, and on the CPU for the words of its errors.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <optional>
#include <unordered_map>

namespace torch_tpu::aten {

/// Tensors on the meta device or the CPU that stand for device tensors of the same geometry; the
/// same tensor is always replaced by the same one. Those on the CPU are zeros.
class StandIns {
 public:
  explicit StandIns(c10::DeviceType device) : device_(device) {}
  at::Tensor of(const at::Tensor& tensor);
  c10::IValue of(const c10::IValue& value);

 private:
  c10::DeviceType device_;
  std::unordered_map<const c10::TensorImpl*, at::Tensor> known_;
};

/// Calls the operator with the arguments (all of them, real tensors) on meta tensors and returns
/// its results. Nothing if the operator has no meta kernel. Throws what PyTorch raises for these
/// arguments.
std::optional<torch::jit::Stack> run_on_meta(const c10::OperatorHandle& op,
                                             c10::ArrayRef<c10::IValue> arguments);

/// The same on the CPU with zeros, whose values mean nothing. Nothing if the operator has no kernel
/// there, or if the tensors are too large.
std::optional<torch::jit::Stack> run_on_cpu(const c10::OperatorHandle& op,
                                            c10::ArrayRef<c10::IValue> arguments);

/// For a call that was refused. Throws what PyTorch's CPU kernel raises for these arguments, so
/// that the error is the CPU's in type and words; returns if the CPU takes the call, or cannot
/// tell.
void raise_cpu_error(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

/// For a call that PyTorch's meta kernels take, and its CPU kernel perhaps not. Throws what the CPU
/// raises for these arguments with zeros; does not try a large call.
void ask_cpu(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

/// True if the CPU raises for these arguments with zeros.
bool cpu_refuses(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

}  // namespace torch_tpu::aten
