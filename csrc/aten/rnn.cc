// Cells of recurrent networks: result types for which PyTorch has no meta kernel, or one that takes
// no absent biases.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include "aten/native.h"

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

Three lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                const at::Tensor& cell, const OptionalTensor& input_bias,
                const OptionalTensor& hidden_bias) {
  torch::jit::Stack stack{input_gates, hidden_gates, cell, input_bias, hidden_bias};
  run_native("torch_tpu::lstm_cell", stack);
  return {stack[0].toTensor(), stack[1].toTensor(), stack[2].toTensor()};
}

Three lstm_cell_meta(const at::Tensor& input_gates, const at::Tensor&, const at::Tensor& cell,
                     const OptionalTensor&, const OptionalTensor&) {
  const auto like = [](const at::Tensor& x) {
    return at::empty_like(x, at::MemoryFormat::Contiguous);
  };
  return {like(cell), like(cell), like(input_gates)};
}

std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor&,
                                            const at::Tensor& hidden, const OptionalTensor&,
                                            const OptionalTensor&) {
  return {at::empty_like(hidden, at::MemoryFormat::Contiguous),
          at::empty_symint({hidden.sym_size(0), hidden.sym_size(1) * 5}, input_gates.options())};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor> gru_cell_backward(
    const at::Tensor& grad, const at::Tensor&, bool has_bias) {
  const c10::SymInt width = grad.sym_size(1) * 3;
  const auto gates = [&] { return at::empty_symint({grad.sym_size(0), width}, grad.options()); };
  const auto bias = [&] {
    return has_bias ? at::empty_symint({width}, grad.options()) : at::Tensor();
  };
  return {gates(), gates(), at::empty_like(grad, at::MemoryFormat::Contiguous), bias(), bias()};
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def(
      "lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor cx, Tensor? input_bias, Tensor? "
      "hidden_bias) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) { m.impl("lstm_cell", lstm_cell_meta); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_thnn_fused_lstm_cell", lstm_cell); }

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace
}  // namespace torch_tpu::aten
