// What torch-side kernels that are composed of others have in common.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>

#include "aten/native.h"

namespace torch_tpu::aten {

/// The end of an out= form: `out` resized if it has to be, and filled with the result.
inline at::Tensor& write_out(const at::Tensor& result, at::Tensor& out) {
  at::native::resize_output(out, result.sizes());
  return out.copy_(result);
}

}  // namespace torch_tpu::aten
