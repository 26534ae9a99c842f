// Tells captures which operators autograd runs.
#include <torch/csrc/autograd/graph_task.h>

#include "engine/capture.h"

namespace torch_tpu::aten {
namespace {

const bool registered = [] {
  engine::is_in_backward = [] { return torch::autograd::get_current_graph_task_id() != -1; };
  return true;
}();

}  // namespace
}  // namespace torch_tpu::aten
