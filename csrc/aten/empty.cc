// Factories without values, resize_ and set_.
#include <ATen/EmptyTensor.h>
#include <ATen/InferSize.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include "aten/tensor.h"
#include "device/allocator.h"
#include "device/current.h"

namespace torch_tpu::aten {
namespace {

c10::ScalarType given_dtype(std::optional<c10::ScalarType> dtype) {
  return dtype.value_or(c10::get_default_dtype_as_scalartype());
}

c10::DeviceIndex index_of(std::optional<c10::Device> device) {
  return device && device->has_index() ? device->index() : device::current_device();
}

void check_options(std::optional<c10::Layout> layout, std::optional<bool> pin_memory) {
  TORCH_CHECK(layout.value_or(c10::kStrided) == c10::kStrided,
              "The tpu device has only strided tensors; got layout ", *layout);
  TORCH_CHECK(!pin_memory.value_or(false), "Only dense CPU tensors can be pinned");
}

at::Tensor empty_memory_format(c10::SymIntArrayRef sym_sizes, std::optional<c10::ScalarType> dtype,
                               std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                               std::optional<bool> pin_memory,
                               std::optional<c10::MemoryFormat> memory_format) {
  check_options(layout, pin_memory);
  const c10::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(sym_sizes);
  const auto format = memory_format.value_or(c10::MemoryFormat::Contiguous);
  TORCH_CHECK(format != c10::MemoryFormat::Preserve,
              "empty: memory_format=torch.preserve_format needs a tensor to preserve it from");
  at::Tensor tensor = empty_contiguous(sizes, given_dtype(dtype), index_of(device));
  if (format != c10::MemoryFormat::Contiguous) {
    tensor.unsafeGetTensorImpl()->empty_tensor_restride(format);
  }
  return tensor;
}

at::Tensor empty_with_strides(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                              std::optional<c10::ScalarType> dtype,
                              std::optional<c10::Layout> layout, std::optional<c10::Device> device,
                              std::optional<bool> pin_memory) {
  check_options(layout, pin_memory);
  return empty_strided(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                       given_dtype(dtype), index_of(device));
}

/// Grows the storage if the tensor with its present geometry does not fit.
void make_room(at::TensorImpl& impl, size_t nbytes) {
  c10::StorageImpl* storage = impl.unsafe_storage().unsafeGetStorageImpl();
  if (nbytes > storage->nbytes()) device::resize_storage(*storage, nbytes);
}

const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef sym_sizes,
                         std::optional<c10::MemoryFormat> memory_format) {
  const c10::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(sym_sizes);
  at::TensorImpl& impl = *self.unsafeGetTensorImpl();
  if (impl.sizes() != sizes) {
    at::detail::check_size_nonnegative(sizes);
    const size_t nbytes = at::detail::computeStorageNbytesContiguous(sizes, impl.dtype().itemsize(),
                                                                     impl.storage_offset());
    impl.set_sizes_contiguous(sizes);
    make_room(impl, nbytes);
  }
  if (memory_format) {
    TORCH_CHECK(*memory_format != c10::MemoryFormat::Preserve, "Unsupported memory format",
                *memory_format);
    impl.empty_tensor_restride(*memory_format);
  }
  return self;
}

at::Tensor& set_storage(at::Tensor& self, at::Storage source, c10::SymInt sym_offset,
                        c10::SymIntArrayRef sym_sizes, c10::SymIntArrayRef sym_strides) {
  const int64_t offset = sym_offset.guard_int(__FILE__, __LINE__);
  const c10::IntArrayRef sizes = C10_AS_INTARRAYREF_SLOW(sym_sizes);
  const c10::IntArrayRef strides = C10_AS_INTARRAYREF_SLOW(sym_strides);
  at::native::checkSetStorage(self, std::move(source), offset, sizes, strides);
  at::TensorImpl& impl = *self.unsafeGetTensorImpl();
  impl.set_storage_offset(offset);
  if (strides.data() == nullptr && strides.empty() && !sizes.empty()) {
    impl.set_sizes_contiguous(sizes);
  } else {
    impl.set_sizes_and_strides(sizes, strides);
  }
  if (impl.numel() > 0) {
    make_room(impl, at::detail::computeStorageNbytes(impl.sizes(), impl.strides(),
                                                     impl.dtype().itemsize(), offset));
  }
  return self;
}

at::Tensor& set_whole_storage(at::Tensor& self, at::Storage source) {
  const auto numel = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return set_storage(self, std::move(source), 0, c10::SymIntArrayRef({c10::SymInt(numel)}),
                     c10::SymIntArrayRef({c10::SymInt(1)}));
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) {
  if (self.unsafeGetTensorImpl() == source.unsafeGetTensorImpl()) return self;
  return set_storage(self, source.storage(), source.sym_storage_offset(), source.sym_sizes(),
                     source.sym_strides());
}

at::Tensor& set_nothing(at::Tensor& self) {
  const at::Tensor empty = empty_contiguous({0}, self.scalar_type(), self.device().index());
  return set_whole_storage(self, empty.storage());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty_memory_format);
  m.impl("empty_strided", empty_with_strides);
  m.impl("resize_", resize);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("set_.source_Storage", set_whole_storage);
  m.impl("set_.source_Tensor", set_tensor);
  m.impl("set_", set_nothing);
}

}  // namespace
}  // namespace torch_tpu::aten
