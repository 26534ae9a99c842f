// out= overloads of operators that are composed of others.
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>

#include <vector>

#include "aten/meta.h"
#include "aten/native.h"

namespace torch_tpu::aten {

using torch::jit::Stack;

void run_through_functional(const c10::OperatorHandle& op, Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t count = arguments.size(), begin = stack->size() - count;
  // PyTorch's own checks of out= tensors, where it has a meta kernel.
  run_on_meta(op, c10::ArrayRef<c10::IValue>(stack->data() + begin, count));
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
    TORCH_CHECK(c10::canCast(result.scalar_type(), outs[k].scalar_type()), "result type ",
                result.scalar_type(), " can't be cast to the desired output type ",
                outs[k].scalar_type());
    at::native::resize_output(outs[k], result.sizes());
    outs[k].copy_(result);
    stack->emplace_back(std::move(outs[k]));
  }
}

}  // namespace torch_tpu::aten
