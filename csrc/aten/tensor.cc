#include "aten/tensor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/copy_native.h>

#include "aten/dtype.h"
#include "aten/native.h"
#include "device/allocator.h"
#include "device/current.h"
#include "device/errors.h"
#include "lowering/view.h"

namespace torch_tpu::aten {

at::Tensor tensor_over(c10::Storage storage, c10::ScalarType dtype, c10::IntArrayRef sizes,
                       c10::IntArrayRef strides) {
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
      c10::scalarTypeToTypeMeta(dtype));
  if (sizes.size() != 1 || sizes[0] != 0 || strides[0] != 1) {  // a new tensor is of size [0]
    tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  }
  return tensor;
}

namespace {

std::span<const int64_t> span_of(c10::IntArrayRef values) { return {values.data(), values.size()}; }

}  // namespace

at::Tensor make_tensor(engine::Device& device, const engine::Result& result) {
  engine::Storage* storage = engine::allocate_storage(device, result.base);
  return tensor_over(device::make_storage(storage), to_torch(result.type.dtype), result.type.dims,
                     result.strides);
}

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::ScalarType dtype,
                         c10::DeviceIndex device_index) {
  const stablehlo::DType hlo = to_hlo(dtype);
  engine::Device& device = device::engine_device(device_index);
  at::detail::check_size_nonnegative(sizes);
  const size_t nbytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(dtype));
  const int64_t numel = c10::multiply_integers(sizes);
  stablehlo::Type base{hlo, {}};
  if (static_cast<size_t>(numel) * c10::elementSize(dtype) == nbytes) {
    base.dims = lowering::memory_order_dims(span_of(sizes), span_of(strides));
  } else {
    base.dims = {static_cast<int64_t>(nbytes / c10::elementSize(dtype))};
  }
  engine::Storage* storage = device::translated(
      "empty", [&] { return engine::allocate_storage(device, nbytes, std::move(base)); });
  return tensor_over(device::make_storage(storage), dtype, sizes, strides);
}

at::Tensor empty_contiguous(c10::IntArrayRef sizes, c10::ScalarType dtype,
                            c10::DeviceIndex device) {
  at::detail::check_size_nonnegative(sizes);
  c10::SmallVector<int64_t, 8> strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    TORCH_CHECK(!__builtin_mul_overflow(stride, std::max<int64_t>(sizes[i], 1), &stride),
                "Storage size calculation overflowed with sizes=", sizes);
  }
  return empty_strided(sizes, strides, dtype, device);
}

at::Tensor dense(const at::Tensor& tensor) {
  if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg()) return tensor;
  at::Tensor out = empty_contiguous(tensor.sizes(), tensor.scalar_type(), tensor.device().index());
  torch::jit::Stack stack{out, tensor, false};
  run_native("aten::copy_", stack);
  return out;
}

}  // namespace torch_tpu::aten
