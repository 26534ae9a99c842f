// torch.nn.functional.scaled_dot_product_attention as one program forward and one backward.
#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_fused_attention_overrideable.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/scaled_dot_product_attention_native.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <numeric>

#include "aten/native.h"

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

bool is_defined(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

/// Forward-mode differentiation, nested and sparse tensors are left to PyTorch's composition.
bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_nested() && !tensor._fw_grad(0).defined();
}

/// A mask that broadcasts to the scores of all heads.
bool fits(const at::Tensor& mask, const at::Tensor& query, const at::Tensor& key) {
  if (!is_plain(mask) || mask.dim() > query.dim()) return false;
  if (mask.scalar_type() != at::kBool && mask.scalar_type() != query.scalar_type()) return false;
  for (int64_t i = 1; i <= mask.dim(); ++i) {
    const c10::SymInt size = i == 1 ? key.sym_size(-2) : query.sym_size(-i);
    if (mask.sym_size(-i) != 1 && mask.sym_size(-i) != size) return false;
  }
  return true;
}

/// What the lowering computes; the rest, and the errors, are PyTorch's own. Sizes may be symbolic:
/// the choice is also made while a graph is captured.
bool is_served(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const OptionalTensor& mask, bool enable_gqa) {
  const int64_t rank = query.dim();
  if (rank != 3 && rank != 4) return false;
  for (const at::Tensor* tensor : {&query, &key, &value}) {
    if (!is_plain(*tensor) || tensor->dim() != rank || !tensor->device().is_privateuseone() ||
        tensor->scalar_type() != query.scalar_type()) {
      return false;
    }
  }
  if (!at::isFloatingType(query.scalar_type())) return false;
  if (rank == 4 &&
      (key.sym_size(0) != query.sym_size(0) || value.sym_size(0) != query.sym_size(0))) {
    return false;
  }
  const c10::SymInt heads = query.sym_size(-3), key_heads = key.sym_size(-3);
  const bool grouped = enable_gqa && key_heads > 0 && heads % key_heads == 0;
  if (value.sym_size(-3) != key_heads || (heads != key_heads && !grouped)) return false;
  if (key.sym_size(-1) != query.sym_size(-1) || key.sym_size(-2) != value.sym_size(-2))
    return false;
  return !is_defined(mask) || fits(*mask, query, key);
}

at::Tensor scaled_dot_product_attention(const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value, const OptionalTensor& mask,
                                        double dropout, bool is_causal, std::optional<double> scale,
                                        bool enable_gqa) {
  if (at::globalContext().userEnabledOverrideableSDP() &&
      is_served(query, key, value, mask, enable_gqa)) {
    // A mask of bools goes in as it is: made of -inf and 0 it would be several programs more.
    return std::get<0>(at::_scaled_dot_product_fused_attention_overrideable(
        query, key, value, mask, dropout, is_causal, /*return_debug_mask=*/false, scale));
  }
  return at::native::scaled_dot_product_attention(query, key, value, mask, dropout, is_causal,
                                                  scale, enable_gqa);
}

int64_t fused_sdp_choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                         const OptionalTensor& mask, double, bool, std::optional<double>,
                         bool enable_gqa) {
  const bool fused = at::globalContext().userEnabledOverrideableSDP() &&
                     is_served(query, key, value, mask, enable_gqa);
  return static_cast<int64_t>(fused ? at::SDPBackend::overrideable : at::SDPBackend::math);
}

/// [H, L, E] is a batch of one.
at::Tensor batched(const at::Tensor& tensor) {
  return tensor.dim() == 3 ? tensor.unsqueeze(0) : tensor;
}

at::Tensor like(const at::Tensor& result, const at::Tensor& tensor) {
  return result.defined() && tensor.dim() == 3 ? result.squeeze(0) : result;
}

using FusedAttention = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt,
                                  c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;

FusedAttention fused_attention(const at::Tensor& query, const at::Tensor& key,
                               const at::Tensor& value, const OptionalTensor& bias, double dropout,
                               bool is_causal, bool, std::optional<double> scale) {
  torch::jit::Stack stack;
  torch::jit::push(stack, batched(query), batched(key), batched(value), bias, dropout, is_causal,
                   scale);
  run_native("torch_tpu::attention", stack);
  return {like(stack[0].toTensor(), query),
          stack[1].toTensor(),
          at::Tensor(),
          at::Tensor(),
          query.size(-2),
          key.size(-2),
          stack[2].toTensor(),
          stack[3].toTensor(),
          at::Tensor()};
}

using AttentionGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

AttentionGradients fused_attention_backward(const at::Tensor& grad, const at::Tensor& query,
                                            const at::Tensor& key, const at::Tensor& value,
                                            const at::Tensor& bias, std::array<bool, 4> wanted,
                                            const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                            const at::Tensor&, int64_t, int64_t, double dropout,
                                            bool is_causal, const at::Tensor& seed,
                                            const at::Tensor& offset, std::optional<double> scale) {
  const bool has_bias = bias.defined();
  c10::List<bool> outputs(
      {wanted[0], wanted[1], wanted[2], wanted[3] && has_bias && bias.scalar_type() != at::kBool});
  torch::jit::Stack stack;
  torch::jit::push(stack, batched(grad), batched(query), batched(key), batched(value),
                   has_bias ? OptionalTensor(bias) : std::nullopt, seed, offset, dropout, is_causal,
                   scale, outputs);
  run_native("torch_tpu::attention_backward", stack);
  return {like(stack[0].toTensor(), query), like(stack[1].toTensor(), key),
          like(stack[2].toTensor(), value), stack[3].toTensor()};
}

// The operators that PyTorch chooses for tensors of the CPU.

std::tuple<at::Tensor, at::Tensor> attention_for_cpu(const at::Tensor& query, const at::Tensor& key,
                                                     const at::Tensor& value, double dropout,
                                                     bool is_causal, const OptionalTensor& mask,
                                                     std::optional<double> scale) {
  TORCH_CHECK(dropout == 0.0,
              "scaled_dot_product_attention_flash_attention: Currently do not support dropout > 0");
  const auto result = fused_attention(query, key, value, mask, dropout, is_causal, false, scale);
  return {std::get<0>(result), std::get<1>(result)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attention_for_cpu_backward(
    const at::Tensor& grad, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const at::Tensor& out, const at::Tensor& logsumexp, double dropout, bool is_causal,
    const OptionalTensor& mask, std::optional<double> scale) {
  const at::Tensor state = at::zeros({}, query.options().dtype(at::kLong));  // for dropout
  const auto grads = fused_attention_backward(
      grad, query, key, value, mask.value_or(at::Tensor()), {true, true, true, false}, out,
      logsumexp, {}, {}, query.size(-2), key.size(-2), dropout, is_causal, state, state, scale);
  return {std::get<0>(grads), std::get<1>(grads), std::get<2>(grads)};
}

/// The output's memory follows the query's, so that heads that were split off one projection can be
/// joined by a view.
at::Tensor output_like(const at::Tensor& query, int64_t value_size) {
  std::vector<int64_t> sizes = query.sizes().vec(), order(query.dim()), strides(query.dim());
  sizes.back() = value_size;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return query.stride(a) > query.stride(b); });
  int64_t stride = 1;
  for (auto dim = order.rbegin(); dim != order.rend(); ++dim) {
    strides[*dim] = stride;
    stride *= std::max<int64_t>(sizes[*dim], 1);
  }
  return at::empty_strided(sizes, strides, query.options());
}

AttentionGradients attention_meta(const at::Tensor& query, const at::Tensor&,
                                  const at::Tensor& value, const OptionalTensor&, double, bool,
                                  std::optional<double>) {
  const auto state = query.options().dtype(at::kLong);
  return {output_like(query, value.size(-1)),
          at::empty(query.sizes().slice(0, 3), query.options().dtype(at::kFloat)),
          at::empty({}, state), at::empty({}, state)};
}

AttentionGradients attention_backward_meta(const at::Tensor&, const at::Tensor& query,
                                           const at::Tensor& key, const at::Tensor& value,
                                           const OptionalTensor& mask, const at::Tensor&,
                                           const at::Tensor&, double, bool, std::optional<double>,
                                           std::array<bool, 4> wanted) {
  return {wanted[0] ? at::empty_like(query) : at::Tensor(),
          wanted[1] ? at::empty_like(key) : at::Tensor(),
          wanted[2] ? at::empty_like(value) : at::Tensor(),
          wanted[3] ? at::empty_like(*mask) : at::Tensor()};
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def(
      "attention(Tensor query, Tensor key, Tensor value, Tensor? mask, float dropout_p, "
      "bool is_causal, float? scale) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def(
      "attention_backward(Tensor grad, Tensor query, Tensor key, Tensor value, Tensor? mask, "
      "Tensor seed, Tensor offset, float dropout_p, bool is_causal, float? scale, "
      "bool[4] output_mask) -> (Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) {
  m.impl("attention", attention_meta);
  m.impl("attention_backward", attention_backward_meta);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("scaled_dot_product_attention", scaled_dot_product_attention);
  m.impl("_fused_sdp_choice", fused_sdp_choice);
  m.impl("_scaled_dot_product_flash_attention_for_cpu", attention_for_cpu);
  m.impl("_scaled_dot_product_flash_attention_for_cpu_backward", attention_for_cpu_backward);
  m.impl("_scaled_dot_product_fused_attention_overrideable", fused_attention);
  m.impl("_scaled_dot_product_fused_attention_overrideable_backward", fused_attention_backward);
}

// The choice is made where gradients are recorded too: what is chosen has a gradient of its own.
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("scaled_dot_product_attention", scaled_dot_product_attention);
}

}  // namespace
}  // namespace torch_tpu::aten
