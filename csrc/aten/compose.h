// What torch-side kernels that are composed of others have in common.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>

#include <utility>

#include "aten/native.h"

namespace torch_tpu::aten {

/// The results of an operator's lowering for these arguments (see run_native).
template <typename... Args>
torch::jit::Stack native(const char* name, Args&&... args) {
  torch::jit::Stack stack;
  torch::jit::push(stack, std::forward<Args>(args)...);
  run_native(name, stack);
  return stack;
}

/// The end of an out= form: `out` resized if it has to be, and filled with the result.
inline at::Tensor& write_out(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace torch_tpu::aten
