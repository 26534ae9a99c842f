// Operators whose results have the memory format of their operand, which PyTorch's meta kernels do
// not tell.
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/native.h"

namespace torch_tpu::aten {
namespace {

void keep_memory_format(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const at::Tensor self = torch::jit::peek(*stack, 0, op.schema().arguments().size()).toTensor();
  run_native(toString(op.operator_name()), *stack);
  c10::IValue& result = stack->back();
  result = result.toTensor().contiguous(self.suggest_memory_format());
}

/// Not where the operand is rolled as a row of its elements, or where an element stays.
bool keeps_format(const at::Tensor& self, at::IntArrayRef shifts, at::IntArrayRef dims) {
  bool keeps = !dims.empty();
  for (size_t i = 0; keeps && i < std::min(shifts.size(), dims.size()); ++i) {
    const int64_t size = self.size(dims[i]);
    keeps = size > 0 && shifts[i] % size != 0;
  }
  return keeps;
}

at::Tensor roll(const at::Tensor& self, c10::SymIntArrayRef shifts, at::IntArrayRef dims) {
  const at::IntArrayRef counts = C10_AS_INTARRAYREF_SLOW(shifts);
  const at::Tensor result = native("aten::roll", self, counts, dims).at(0).toTensor();
  return keeps_format(self, counts, dims) ? result.contiguous(self.suggest_memory_format())
                                          : result;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name :
       {"channel_shuffle", "max_unpool2d", "pixel_shuffle", "pixel_unshuffle", "reflection_pad2d",
        "reflection_pad3d", "replication_pad2d", "replication_pad3d"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&keep_memory_format>());
  }
  m.impl("roll", roll);
}

}  // namespace
}  // namespace torch_tpu::aten
