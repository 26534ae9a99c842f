// Operators whose results have the memory format of their operand, which PyTorch's meta kernels do
// not tell.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include "aten/native.h"

namespace torch_tpu::aten {
namespace {

void keep_memory_format(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::Tensor self = torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensor();
  run_native(toString(op.operator_name()), *stack);
  c10::IValue& result = stack->back();
  result = result.toTensor().contiguous(self.suggest_memory_format());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name :
       {"channel_shuffle", "max_unpool2d", "pixel_shuffle", "pixel_unshuffle", "reflection_pad2d",
        "reflection_pad3d", "replication_pad2d", "replication_pad3d"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&keep_memory_format>());
  }
}

}  // namespace
}  // namespace torch_tpu::aten
