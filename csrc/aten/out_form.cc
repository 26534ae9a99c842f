// out= overloads of operators that are composed of others.
#include <ATen/core/Tensor.h>

#include <vector>

#include "aten/compose.h"

namespace torch_tpu::aten {

using torch::jit::Stack;

void run_through_functional(const c10::OperatorHandle& op, Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t count = arguments.size(), begin = stack->size() - count;
  Stack inputs;
  std::vector<at::Tensor> outs;
  for (size_t i = 0; i < count; ++i) {
    c10::IValue& value = (*stack)[begin + i];
    if (arguments[i].is_out()) {
      outs.push_back(value.toTensor());
    } else {
      inputs.push_back(std::move(value));
    }
  }
  const auto functional =
      c10::Dispatcher::singleton().findSchemaOrThrow(op.schema().name().c_str(), "");
  functional.callBoxed(&inputs);
  torch::jit::drop(*stack, count);
  for (size_t k = 0; k < outs.size(); ++k) {
    const at::Tensor& result = inputs[k].toTensor();
    // The rule, and the words, of PyTorch's structured kernels.
    TORCH_CHECK(result.dtype() == outs[k].dtype(), "Expected out tensor to have dtype ",
                result.dtype(), ", but got ", outs[k].dtype(), " instead");
    TORCH_CHECK(result.device() == outs[k].device(), "Expected out tensor to have device ",
                result.device(), ", but got ", outs[k].device(), " instead");
    resize_for(result, outs[k], /*structured=*/true);
    outs[k].copy_(result);
    stack->emplace_back(std::move(outs[k]));
  }
}

}  // namespace torch_tpu::aten
