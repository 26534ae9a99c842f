// What torch-side kernels that are composed of others have in common.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>

#include "aten/native.h"

namespace torch_tpu::aten {

/// Resizes `out` to the shape of the result, if it has another. An empty one gets the strides of
/// the result too; so does any in a structured kernel.
inline void resize_for(const at::Tensor& result, const at::Tensor& out, bool structured) {
  const bool restrides = structured || out.numel() == 0;
  if (at::native::resize_output(out, result.sizes()) && restrides &&
      result.is_non_overlapping_and_dense()) {
    out.as_strided_(result.sizes(), result.strides());
  }
}

/// The end of an out= form: `out` resized if it has to be, and filled with the result.
inline at::Tensor& write_out(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace torch_tpu::aten
