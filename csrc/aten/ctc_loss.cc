// Connectionist temporal classification for the dispatcher. The lengths are operands, not part of a
// program; only the longest target decides a shape.
#include <ATen/TensorUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

using Losses = std::tuple<at::Tensor, at::Tensor>;

void check_length(int64_t length, int64_t most, const char* name) {
  TORCH_CHECK(length >= 0, "Expected ", name, " to have value at least ", 0, ", but got value ",
              length, " (while checking arguments for ctc_loss_allocate_outputs)");
  TORCH_CHECK(length <= most, "Expected ", name, " to have value at most ", most,
              ", but got value ", length,
              " (while checking arguments for ctc_loss_allocate_outputs)");
}

/// PyTorch's checks; returns the length of the longest target.
int64_t check(const at::Tensor& log_probs, const at::Tensor& targets,
              c10::IntArrayRef input_lengths, c10::IntArrayRef target_lengths, int64_t blank) {
  const char* caller = "ctc_loss_allocate_outputs";
  const at::TensorArg log_probs_arg(log_probs, "log_probs", 1), targets_arg(targets, "targets", 2);
  if (targets.scalar_type() != at::kLong) at::checkScalarType(caller, targets_arg, at::kInt);
  at::checkDim(caller, log_probs_arg, 3);
  at::checkDimRange(caller, targets_arg, 1, 3);
  TORCH_CHECK_NOT_IMPLEMENTED(
      log_probs.scalar_type() == at::kFloat || log_probs.scalar_type() == at::kDouble,
      "\"ctc_loss_cpu\" not implemented for '", log_probs.scalar_type(), "'");
  TORCH_CHECK(log_probs.numel() > 0, "log_probs tensor must not be empty");
  const auto batch = static_cast<size_t>(log_probs.size(1));
  TORCH_CHECK(0 <= blank && blank < log_probs.size(2), "blank must be in label range");
  TORCH_CHECK(input_lengths.size() == batch, "input_lengths must be of size batch_size");
  TORCH_CHECK(target_lengths.size() == batch, "target_lengths must be of size batch_size");
  int64_t longest = 0, total = 0;
  for (size_t i = 0; i < batch; ++i) {
    check_length(target_lengths[i], std::numeric_limits<int64_t>::max(), "target_lengths");
    check_length(input_lengths[i], log_probs.size(0), "input_lengths");
    longest = std::max(longest, target_lengths[i]);
    total += target_lengths[i];
  }
  if (targets.dim() == 1) {
    at::checkSize(caller, targets_arg, 0, total);
  } else {
    at::checkSize(caller, targets_arg, 0, log_probs.size(1));
    TORCH_CHECK(targets.size(1) >= longest, "Expected tensor to have size at least ", longest,
                " at dimension 1, but got size ", targets.size(1), " for ", targets_arg,
                " (while checking arguments for ", caller, ")");
  }
  return longest;
}

at::Tensor lengths_on(const at::Tensor& log_probs, c10::IntArrayRef lengths) {
  return at::tensor(lengths, at::kLong).to(log_probs.device());
}

std::vector<int64_t> on_host(const at::Tensor& lengths) {
  TORCH_CHECK(at::isIntegralType(lengths.scalar_type(), /*includeBool=*/false),
              "input_lengths and target_lengths must be integral");
  const at::Tensor host = lengths.to(at::kCPU, at::kLong).contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

Losses ctc_loss(const at::Tensor& log_probs, const at::Tensor& targets,
                c10::IntArrayRef input_lengths, c10::IntArrayRef target_lengths, int64_t blank,
                bool) {
  const int64_t longest = check(log_probs, targets, input_lengths, target_lengths, blank);
  const torch::jit::Stack results =
      native("torch_tpu::ctc_loss", log_probs, targets, lengths_on(log_probs, input_lengths),
             lengths_on(log_probs, target_lengths), longest, blank);
  return {results.at(0).toTensor(), results.at(1).toTensor()};
}

Losses ctc_loss_tensor(const at::Tensor& log_probs, const at::Tensor& targets,
                       const at::Tensor& input_lengths, const at::Tensor& target_lengths,
                       int64_t blank, bool zero_infinity) {
  return ctc_loss(log_probs, targets, on_host(input_lengths), on_host(target_lengths), blank,
                  zero_infinity);
}

at::Tensor backward_on(const at::Tensor& grad, const at::Tensor& log_probs,
                       const at::Tensor& targets, const at::Tensor& input_lengths,
                       const at::Tensor& target_lengths, const at::Tensor& loss,
                       const at::Tensor& log_alpha, int64_t blank, bool zero_infinity) {
  const torch::jit::Stack results =
      native("torch_tpu::ctc_loss_backward", grad, log_probs, targets,
             input_lengths.to(log_probs.device()), target_lengths.to(log_probs.device()), loss,
             log_alpha, blank, zero_infinity);
  return results.at(0).toTensor();
}

at::Tensor ctc_loss_backward(const at::Tensor& grad, const at::Tensor& log_probs,
                             const at::Tensor& targets, c10::IntArrayRef input_lengths,
                             c10::IntArrayRef target_lengths, const at::Tensor& loss,
                             const at::Tensor& log_alpha, int64_t blank, bool zero_infinity) {
  return backward_on(grad, log_probs, targets, lengths_on(log_probs, input_lengths),
                     lengths_on(log_probs, target_lengths), loss, log_alpha, blank, zero_infinity);
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def(
      "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths,"
      " int longest, int blank) -> (Tensor, Tensor)");
  m.def(
      "ctc_loss_backward(Tensor grad, Tensor log_probs, Tensor targets, Tensor input_lengths,"
      " Tensor target_lengths, Tensor neg_log_likelihood, Tensor log_alpha, int blank,"
      " bool zero_infinity) -> Tensor");
}

Losses ctc_loss_meta(const at::Tensor& log_probs, const at::Tensor&, const at::Tensor&,
                     const at::Tensor&, int64_t longest, int64_t) {
  const int64_t times = log_probs.size(0), batch = log_probs.size(1);
  return {at::empty({batch}, log_probs.options()),
          at::empty({batch, times, 2 * longest + 1}, log_probs.options())};
}

at::Tensor ctc_loss_backward_meta(const at::Tensor&, const at::Tensor& log_probs, const at::Tensor&,
                                  const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                  const at::Tensor&, int64_t, bool) {
  return at::empty(log_probs.sizes(), log_probs.options());
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) {
  m.impl("ctc_loss", ctc_loss_meta);
  m.impl("ctc_loss_backward", ctc_loss_backward_meta);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_ctc_loss", ctc_loss);
  m.impl("_ctc_loss.Tensor", ctc_loss_tensor);
  m.impl("_ctc_loss_backward", ctc_loss_backward);
  m.impl("_ctc_loss_backward.Tensor", backward_on);
}

}  // namespace
}  // namespace torch_tpu::aten
