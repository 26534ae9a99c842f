// Pretended quantization and products of scaled narrow floats, for the dispatcher: what the host
// decides, compositions, and the result types for which PyTorch has no meta kernel.
#include <ATen/BlasBackend.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/quantized/cpu/QuantUtils.h>
#include <ATen/ops/_fake_quantize_per_tensor_affine_cachemask_tensor_qparams.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/fake_quantize_per_channel_affine_cachemask.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <torch/library.h>

#include <limits>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Two = std::tuple<at::Tensor, at::Tensor>;
using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// ---- the moving observer

/// running + c * (now - running), or what is seen first.
void move_average(at::Tensor& running, const at::Tensor& now, double c) {
  const at::Tensor moved = running.add(now.sub(running).mul(c));
  running.copy_(now.where(running.isinf(), moved));
}

/// Scales and zero points from ranges, by PyTorch's own function, on the host.
void choose_parameters(const at::Tensor& least, const at::Tensor& greatest, at::Tensor& scale,
                       at::Tensor& zero_point, int64_t quant_min, int64_t quant_max,
                       bool symmetric) {
  const at::Tensor low = least.reshape({-1}).to(at::kCPU, at::kFloat);
  const at::Tensor high = greatest.reshape({-1}).to(at::kCPU, at::kFloat);
  const int64_t count = low.numel();
  const at::Tensor scales = at::empty({count}, at::kFloat), points = at::empty({count}, at::kInt);
  for (int64_t i = 0; i < count; ++i) {
    const auto chosen = quant_utils::ChooseQuantizationParams(
        low.const_data_ptr<float>()[i], high.const_data_ptr<float>()[i],
        static_cast<int32_t>(quant_min), static_cast<int32_t>(quant_max),
        /*preserve_sparsity=*/symmetric, /*force_scale_power_of_two=*/false);
    scales.mutable_data_ptr<float>()[i] = static_cast<float>(chosen.scale);
    points.mutable_data_ptr<int>()[i] = chosen.zero_point;
  }
  scale.copy_(scales.view(scale.sizes()));
  zero_point.copy_(points.view(zero_point.sizes()));
}

void observe(const at::Tensor& self, at::Tensor& running_min, at::Tensor& running_max, double c,
             bool per_row) {
  if (per_row && running_min.numel() == 0) {
    running_min.resize_({self.size(0)}).fill_(std::numeric_limits<float>::infinity());
    running_max.resize_({self.size(0)}).fill_(-std::numeric_limits<float>::infinity());
  }
  const auto [least, greatest] =
      per_row ? at::aminmax(self.flatten(1), 1) : at::aminmax(self.reshape({-1}), 0);
  move_average(running_min, least.view(running_min.sizes()), c);
  move_average(running_max, greatest.view(running_max.sizes()), c);
}

Two fused_observe_and_quantize(const at::Tensor& self, const at::Tensor& observer_on,
                               const at::Tensor& fake_quant_on, at::Tensor& running_min,
                               at::Tensor& running_max, at::Tensor& scale, at::Tensor& zero_point,
                               double c, int64_t quant_min, int64_t quant_max, int64_t axis,
                               bool per_row, bool symmetric) {
  TORCH_CHECK(axis < self.dim(),
              "Error in fused_moving_avg_obs_fake_quant_cpu: ch_axis must be < self.dim()");
  if (observer_on.item<int>() != 0) {
    TORCH_CHECK(
        !per_row || axis == 0,
        "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0");
    observe(self, running_min, running_max, c, per_row);
  }
  if (fake_quant_on.item<int>() == 0) {
    return {self.clone(), at::ones_like(self, self.options().dtype(at::kBool))};
  }
  if (per_row) {
    scale.resize_(running_min.sizes());
    zero_point.resize_(running_min.sizes());
  }
  choose_parameters(running_min, running_max, scale, zero_point, quant_min, quant_max, symmetric);
  if (per_row) {
    return at::fake_quantize_per_channel_affine_cachemask(self, scale, zero_point, axis, quant_min,
                                                          quant_max);
  }
  return at::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams(
      self, scale, zero_point, fake_quant_on, quant_min, quant_max);
}

/// The scale and the zero point are operands of the program.
Two fake_quantize_per_tensor(const at::Tensor& self, double scale, int64_t zero_point,
                             int64_t quant_min, int64_t quant_max) {
  TORCH_CHECK(quant_min <= quant_max,
              "`quant_min` should be less than or         equal to `quant_max`.");
  TORCH_CHECK(zero_point >= quant_min && zero_point <= quant_max,
              "`zero_point` must be between `quant_min` and `quant_max`.");
  const torch::jit::Stack results = native("torch_tpu::fake_quantize", self, c10::Scalar(scale),
                                           c10::Scalar(zero_point), quant_min, quant_max);
  return {results.at(0).toTensor(), results.at(1).toTensor()};
}

// ---- products

/// The scale of one side: one number, or one for each row (column) of the result.
at::Tensor scaled(const at::Tensor& product, const at::Tensor& scale) {
  return product.mul(scale.numel() == 1 ? scale.reshape({}) : scale);
}

/// Both matrices are float8, with one scale each, or with one for each row and for each column.
void check_scaling(const at::Tensor& a, const at::Tensor& b, const at::Tensor& scale_a,
                   const at::Tensor& scale_b) {
  const bool narrow_a = at::isFloat8Type(a.scalar_type());
  const bool narrow_b = at::isFloat8Type(b.scalar_type());
  TORCH_CHECK(narrow_a || narrow_b, "Expected mat1 to be Float8 matrix got ", a.scalar_type());
  const auto is_scale = [](const at::Tensor& scale, int64_t rows, int64_t columns) {
    return scale.scalar_type() == at::kFloat && scale.dim() == 2 && scale.size(0) == rows &&
           scale.size(1) == columns && scale.is_contiguous();
  };
  const bool whole = scale_a.numel() == 1 && scale_b.numel() == 1;
  const bool rows = is_scale(scale_a, a.size(0), 1) && is_scale(scale_b, 1, b.size(1));
  TORCH_CHECK_VALUE(
      narrow_a && narrow_b && (whole || rows),
      "Invalid scaling configuration.\n"
      "- For TensorWise scaling, a and b should be float8, scales should be float and singletons.\n"
      "- For RowWise scaling, a and b should be float8, scales should be float, scale_a should be "
      "(",
      a.size(0), ", 1) and scale_b should be (1, ", b.size(1), "), and both should be contiguous.");
}

at::Tensor scaled_mm(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                     const at::Tensor& scale_b, const OptionalTensor& bias,
                     const OptionalTensor& scale_result, std::optional<at::ScalarType> out_dtype,
                     bool) {
  TORCH_CHECK(self.dim() == 2, "mat1 must be a matrix");
  TORCH_CHECK(mat2.dim() == 2, "mat2 must be a matrix");
  TORCH_CHECK(self.size(1) == mat2.size(0), "mat1 and mat2 shapes cannot be multiplied (",
              self.size(0), "x", self.size(1), " and ", mat2.size(0), "x", mat2.size(1), ")");
  check_scaling(self, mat2, scale_a, scale_b);
  at::Tensor out = at::mm(self.to(at::kFloat), mat2.to(at::kFloat));
  out = scaled(scaled(out, scale_a), scale_b);
  if (bias && bias->defined()) out = out.add(*bias);
  if (scale_result && scale_result->defined()) out = scaled(out, *scale_result);
  return out.to(out_dtype.value_or(self.scalar_type()));
}

at::Tensor& scaled_mm_out(const at::Tensor& self, const at::Tensor& mat2, const at::Tensor& scale_a,
                          const at::Tensor& scale_b, const OptionalTensor& bias,
                          const OptionalTensor& scale_result,
                          std::optional<at::ScalarType> out_dtype, bool fast, at::Tensor& out) {
  const auto dtype = out_dtype.value_or(out.scalar_type());
  return write_out(scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, dtype, fast), out);
}

/// The one scale of a side whose recipe is one number for all or one for each row.
const at::Tensor& only_scale(at::TensorList scales, at::IntArrayRef recipe,
                             at::IntArrayRef swizzle) {
  using at::blas::ScalingType;
  const auto is = [&](ScalingType type) { return recipe[0] == static_cast<int64_t>(type); };
  TORCH_CHECK_NOT_IMPLEMENTED(scales.size() == 1 && recipe.size() == 1 &&
                                  (is(ScalingType::TensorWise) || is(ScalingType::RowWise)),
                              "_scaled_mm_v2: only scales of a whole tensor and of rows are there");
  for (const int64_t how : swizzle) {
    TORCH_CHECK_NOT_IMPLEMENTED(how == 0, "_scaled_mm_v2: swizzled scales are not there");
  }
  return scales[0];
}

at::Tensor scaled_mm_v2(const at::Tensor& self, const at::Tensor& mat2, at::TensorList scale_a,
                        at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a, at::TensorList scale_b,
                        at::IntArrayRef recipe_b, at::IntArrayRef swizzle_b,
                        const OptionalTensor& bias, std::optional<at::ScalarType> out_dtype,
                        at::IntArrayRef, bool fast) {
  return scaled_mm(self, mat2, only_scale(scale_a, recipe_a, swizzle_a),
                   only_scale(scale_b, recipe_b, swizzle_b), bias, {},
                   out_dtype.value_or(at::kBFloat16), fast);
}

at::Tensor& scaled_mm_v2_out(const at::Tensor& self, const at::Tensor& mat2, at::TensorList scale_a,
                             at::IntArrayRef recipe_a, at::IntArrayRef swizzle_a,
                             at::TensorList scale_b, at::IntArrayRef recipe_b,
                             at::IntArrayRef swizzle_b, const OptionalTensor& bias,
                             std::optional<at::ScalarType> out_dtype, at::IntArrayRef dims,
                             bool fast, at::Tensor& out) {
  const auto dtype = out_dtype.value_or(out.scalar_type());
  return write_out(scaled_mm_v2(self, mat2, scale_a, recipe_a, swizzle_a, scale_b, recipe_b,
                                swizzle_b, bias, dtype, dims, fast),
                   out);
}

/// self [m, k] by int8 rows [n, k], each with a scale.
at::Tensor int8_mm(const at::Tensor& self, const at::Tensor& weight, const at::Tensor& scales) {
  TORCH_CHECK(self.dim() == 2 && weight.dim() == 2 && self.size(1) == weight.size(1),
              "_weight_int8pack_mm: expect A [M, K] and B [N, K], but got ", self.sizes(), " and ",
              weight.sizes());
  TORCH_CHECK(weight.scalar_type() == at::kChar,
              "_weight_int8pack_mm: expect B to be int8 tensor.");
  TORCH_CHECK(scales.dim() == 1 && scales.size(0) == weight.size(0),
              "_weight_int8pack_mm: expect scales to be 1d tensor with size ", weight.size(0));
  const at::Tensor product = at::mm(self.to(at::kFloat), weight.to(at::kFloat).t());
  return product.mul(scales.to(at::kFloat)).to(self.scalar_type());
}

// ---- Meta

Two with_mask(const at::Tensor& self) {
  return {at::empty_like(self), at::empty_like(self, self.options().dtype(at::kBool))};
}

Two per_tensor_meta(const at::Tensor& self, const at::Scalar&, const at::Scalar&, int64_t,
                    int64_t) {
  return with_mask(self);
}

Two per_tensor_qparams_meta(const at::Tensor& self, const at::Tensor&, const at::Tensor&,
                            const at::Tensor&, int64_t, int64_t) {
  return with_mask(self);
}

Two per_channel_meta(const at::Tensor& self, const at::Tensor& scale, const at::Tensor& zero_point,
                     int64_t axis, int64_t quant_min, int64_t quant_max) {
  TORCH_CHECK(scale.scalar_type() == at::kFloat, "Scale must be Float, found ",
              scale.scalar_type());
  TORCH_CHECK(scale.dim() == 1, "scale should be a 1-D tensor");
  TORCH_CHECK(zero_point.dim() == 1, "zero point should be a 1-D tensor");
  TORCH_CHECK(scale.numel() == zero_point.numel(),
              "scale and zero-point need to have the same "
              "dimensions");
  TORCH_CHECK(axis >= 0 && axis < self.dim(),
              "`axis` must be between 0 and number of dimensions "
              "of input");
  TORCH_CHECK(scale.numel() == self.size(axis),
              "dimensions of scale and zero-point are not consistent with input tensor");
  TORCH_CHECK(quant_min <= quant_max, "`quant_min` should be less than or equal to `quant_max`.");
  return with_mask(self);
}

at::Tensor learnable_meta(const at::Tensor& self, const at::Tensor&, const at::Tensor&, int64_t,
                          int64_t, double) {
  return at::empty_like(self);
}

at::Tensor learnable_channel_meta(const at::Tensor& self, const at::Tensor&, const at::Tensor&,
                                  int64_t, int64_t, int64_t, double) {
  return at::empty_like(self);
}

Three learnable_backward_meta(const at::Tensor&, const at::Tensor& self, const at::Tensor& scale,
                              const at::Tensor& zero_point, int64_t, int64_t, double) {
  return {at::empty_like(self), at::empty({1}, scale.options()),
          at::empty({1}, zero_point.options())};
}

Three learnable_channel_backward_meta(const at::Tensor&, const at::Tensor& self,
                                      const at::Tensor& scale, const at::Tensor& zero_point,
                                      int64_t, int64_t, int64_t, double) {
  return {at::empty_like(self), at::empty_like(scale), at::empty_like(zero_point)};
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def(
      "fake_quantize(Tensor self, Scalar scale, Scalar zero_point, int quant_min, int quant_max)"
      " -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) { m.impl("fake_quantize", per_tensor_meta); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("fake_quantize_per_tensor_affine_cachemask", fake_quantize_per_tensor);
  m.impl("_fused_moving_avg_obs_fq_helper", fused_observe_and_quantize);
  m.impl("_scaled_mm", scaled_mm);
  m.impl("_scaled_mm.out", scaled_mm_out);
  m.impl("_scaled_mm_v2", scaled_mm_v2);
  m.impl("_scaled_mm_v2.out", scaled_mm_v2_out);
  m.impl("_weight_int8pack_mm", int8_mm);
}

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", per_tensor_qparams_meta);
  m.impl("fake_quantize_per_channel_affine_cachemask", per_channel_meta);
  m.impl("_fake_quantize_learnable_per_tensor_affine", learnable_meta);
  m.impl("_fake_quantize_learnable_per_channel_affine", learnable_channel_meta);
  m.impl("_fake_quantize_learnable_per_tensor_affine_backward", learnable_backward_meta);
  m.impl("_fake_quantize_learnable_per_channel_affine_backward", learnable_channel_backward_meta);
}

}  // namespace
}  // namespace torch_tpu::aten
