// Storages of torch tensors on this device.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Allocator.h>

#include "engine/device.h"

namespace torch_tpu::device {

/// The engine's handle of a storage of this device; throws if the storage is not ours.
engine::Storage& storage_of(const c10::StorageImpl& storage);
inline engine::Storage& storage_of(const at::TensorBase& tensor) {
  return storage_of(*tensor.storage().unsafeGetStorageImpl());
}

/// A c10 pointer that owns the engine's handle. Its address is unique and never dereferenced.
c10::DataPtr data_ptr_of(engine::Storage* storage);
/// A c10 storage that owns the engine's handle.
c10::Storage make_storage(engine::Storage* storage);

/// Registered with c10 for the device; memory of the current device. A c10::DeviceAllocator, so
/// that torch.accelerator.memory_* work.
c10::Allocator* allocator();

/// Changes a storage's size and keeps its bytes (the resize hook). May block.
void resize_storage(c10::StorageImpl& storage, size_t nbytes);

/// The device that an address of one of its storages belongs to. Throws if it is not an address of
/// this device type.
c10::Device device_of_address(const void* address);

}  // namespace torch_tpu::device
