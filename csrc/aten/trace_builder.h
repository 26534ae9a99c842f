// The slow path of a call: what a miss in the program cache needs to know.
#pragma once

#include <ATen/core/stack.h>

#include <vector>

#include "aten/call.h"
#include "engine/trace.h"

namespace torch_tpu::aten {

/// An out= argument whose shape is not that of the result: PyTorch resizes it, and gives it the
/// strides of the result.
struct Resize {
  int out_arg;  // argument of the form
  std::vector<int64_t> sizes, strides;
};

struct BuiltCall {
  engine::Trace trace;
  /// Not empty: nothing was traced. Resize these and start again.
  std::vector<Resize> resizes;
};

/// Checks the call as PyTorch would, by running it on meta tensors (which raises PyTorch's own
/// errors), and records it.
BuiltCall build_call(const Form& form, const CallKey& key, const torch::jit::Stack& stack);

}  // namespace torch_tpu::aten
