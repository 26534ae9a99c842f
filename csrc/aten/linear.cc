// torch.nn.functional.linear as one program forward and one backward, where PyTorch composes it of
// views and matrix products.
#include <ATen/ops/linear.h>
#include <ATen/ops/linear_backward.h>
#include <ATen/ops/linear_native.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

at::Tensor linear_below_autograd(const at::Tensor& input, const at::Tensor& weight,
                                 const OptionalTensor& bias) {
  const at::AutoDispatchBelowADInplaceOrView below;
  return at::linear(input, weight, bias);
}

class Linear : public torch::autograd::Function<Linear> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const at::Tensor& weight,
                            const OptionalTensor& bias) {
    ctx->save_for_backward({input, weight});
    ctx->saved_data["has_bias"] = bias && bias->defined();
    return linear_below_autograd(input, weight, bias);
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    if (!grads[0].defined()) return {at::Tensor(), at::Tensor(), at::Tensor()};
    const variable_list saved = ctx->get_saved_variables();
    // An absent bias has no edge to ask about.
    const bool bias_wanted = ctx->saved_data["has_bias"].toBool() && ctx->needs_input_grad(2);
    const auto [input, weight, bias] =
        at::linear_backward(saved[0], grads[0], saved[1],
                            {ctx->needs_input_grad(0), ctx->needs_input_grad(1), bias_wanted});
    return {input, weight, bias};
  }
};

/// Subclasses that handle operators themselves, such as DTensor, know those of the composition. Not
/// so those by which a graph is traced, which a mode tells.
bool is_subclass(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->is_python_dispatch() &&
         !c10::impl::TorchDispatchModeTLS::any_modes_set();
}

bool is_plain(const at::Tensor& tensor) {
  return !is_subclass(tensor) && tensor.layout() == at::kStrided && !tensor.is_nested() &&
         !tensor.is_complex() && !tensor._fw_grad(0).defined() &&
         tensor.device().is_privateuseone();
}

bool requires_grad(const OptionalTensor& tensor) { return tensor && tensor->requires_grad(); }

at::Tensor linear(const at::Tensor& input, const at::Tensor& weight, const OptionalTensor& bias) {
  const bool has_bias = bias && bias->defined();
  const bool served = is_plain(input) && is_plain(weight) && input.dim() >= 1 &&
                      weight.dim() == 2 && (!has_bias || (is_plain(*bias) && bias->dim() == 1));
  // Complex numbers, forward-mode derivatives and unusual shapes are left to PyTorch's composition.
  if (!served) return at::native::linear(input, weight, bias);
  TORCH_CHECK(input.sym_size(-1) == weight.sym_size(1),
              "mat1 and mat2 shapes cannot be multiplied (",
              c10::multiply_integers(input.sym_sizes().slice(0, input.dim() - 1)), "x",
              input.sym_size(-1), " and ", weight.sym_size(1), "x", weight.sym_size(0), ")");
  const bool recorded = at::GradMode::is_enabled() &&
                        (input.requires_grad() || weight.requires_grad() || requires_grad(bias));
  return recorded ? Linear::apply(input, weight, bias) : linear_below_autograd(input, weight, bias);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("linear", linear); }

}  // namespace
}  // namespace torch_tpu::aten
