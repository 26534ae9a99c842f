// Making tensors of this device.
#pragma once

#include <ATen/core/Tensor.h>

#include "engine/device.h"
#include "engine/trace.h"

namespace torch_tpu::aten {

/// A tensor over a new storage without value, as a fresh result says.
at::Tensor make_tensor(engine::Device& device, const engine::Result& result);

/// A tensor over this storage.
at::Tensor tensor_over(c10::Storage storage, c10::ScalarType dtype, c10::IntArrayRef sizes,
                       c10::IntArrayRef strides);

/// torch.empty_strided on a device: no device work.
at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                         c10::DeviceIndex device);
at::Tensor empty_contiguous(c10::IntArrayRef sizes, c10::ScalarType dtype, c10::DeviceIndex device);

/// What the tensor shows, dense and in logical order, without conj and neg bits: itself if it is
/// that already.
at::Tensor dense(const at::Tensor& tensor);

}  // namespace torch_tpu::aten
