// Batch normalization for the dispatcher: operators whose schemas mix results with written
// statistics, and the result types of those for which PyTorch has no meta kernel.
#include <ATen/AccumulateType.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/native_batch_norm.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Four = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// ---- PrivateUse1. The running statistics are written by native_batch_norm too, whose schema does
// not say so.

Three native_batch_norm_legit(const at::Tensor& input, const OptionalTensor& weight,
                              const OptionalTensor& bias, at::Tensor& running_mean,
                              at::Tensor& running_var, bool training, double momentum, double eps) {
  return at::native_batch_norm(input, weight, bias, running_mean, running_var, training, momentum,
                               eps);
}

Four batch_norm_with_update(const at::Tensor& input, const OptionalTensor& weight,
                            const OptionalTensor& bias, at::Tensor& running_mean,
                            at::Tensor& running_var, double momentum, double eps) {
  auto [output, mean, invstd] =
      at::native_batch_norm(input, weight, bias, running_mean, running_var,
                            /*training=*/true, momentum, eps);
  return {output, mean, invstd, at::empty({0}, input.options().dtype(at::kByte))};
}

// ---- Meta

at::Tensor channels_like(const at::Tensor& input, at::ScalarType dtype) {
  return at::empty_symint({input.sym_size(1)}, input.options().dtype(dtype));
}

/// The dtype of statistics: float for narrower floats.
at::ScalarType statistics_dtype(const at::Tensor& input) {
  return at::toAccumulateType(input.scalar_type(), c10::DeviceType::CUDA);
}

Two batch_norm_update_stats_meta(const at::Tensor& input, const OptionalTensor& running_mean,
                                 const OptionalTensor&, double) {
  const bool mixed = running_mean && running_mean->defined();
  const at::ScalarType dtype = mixed ? running_mean->scalar_type() : input.scalar_type();
  return {channels_like(input, dtype), channels_like(input, dtype)};
}

Two batch_norm_stats_meta(const at::Tensor& input, double) {
  const at::ScalarType dtype = statistics_dtype(input);
  return {channels_like(input, dtype), channels_like(input, dtype)};
}

at::Tensor batch_norm_elemt_meta(const at::Tensor& input, const OptionalTensor&,
                                 const OptionalTensor&, const at::Tensor&, const at::Tensor&,
                                 double) {
  return at::empty_like(input);
}

Two batch_norm_gather_stats_meta(const at::Tensor& input, const at::Tensor& mean, const at::Tensor&,
                                 const OptionalTensor&, const OptionalTensor&, double, double,
                                 const at::Tensor&) {
  return {channels_like(input, mean.scalar_type()), channels_like(input, mean.scalar_type())};
}

Four batch_norm_backward_reduce_meta(const at::Tensor&, const at::Tensor& input,
                                     const at::Tensor& mean, const at::Tensor&,
                                     const OptionalTensor& weight, bool input_g, bool weight_g,
                                     bool bias_g) {
  const bool has_weight = weight && weight->defined();
  const at::ScalarType dtype = has_weight ? weight->scalar_type() : mean.scalar_type();
  Four out;
  if (input_g) {
    std::get<0>(out) = channels_like(input, mean.scalar_type());
    std::get<1>(out) = channels_like(input, mean.scalar_type());
  }
  if (weight_g) std::get<2>(out) = channels_like(input, dtype);
  if (bias_g) std::get<3>(out) = channels_like(input, dtype);
  return out;
}

at::Tensor batch_norm_backward_elemt_meta(const at::Tensor&, const at::Tensor& input,
                                          const at::Tensor&, const at::Tensor&,
                                          const OptionalTensor&, const at::Tensor&,
                                          const at::Tensor&, const at::Tensor&) {
  return at::empty_like(input);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_native_batch_norm_legit", native_batch_norm_legit);
  m.impl("_batch_norm_with_update", batch_norm_with_update);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("batch_norm_update_stats", batch_norm_update_stats_meta);
  m.impl("batch_norm_stats", batch_norm_stats_meta);
  m.impl("batch_norm_elemt", batch_norm_elemt_meta);
  m.impl("batch_norm_gather_stats_with_counts", batch_norm_gather_stats_meta);
  m.impl("batch_norm_backward_reduce", batch_norm_backward_reduce_meta);
  m.impl("batch_norm_backward_elemt", batch_norm_backward_elemt_meta);
}

}  // namespace
}  // namespace torch_tpu::aten
