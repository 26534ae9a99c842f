#include "engine/storage.h"

#include <cstring>
#include <memory>
#include <stdexcept>
#include <vector>

#include "engine/address.h"
#include "engine/device.h"
#include "engine/memory_history.h"

namespace torch_tpu::engine {

using stablehlo::DType;
using stablehlo::Type;

namespace {

struct FreeDeleter {
  void operator()(void* p) const { std::free(p); }
};
using HostBytes = std::unique_ptr<std::byte, FreeDeleter>;

/// Zeroed host memory; the kernel gives zero pages, so that untouched memory costs nothing.
HostBytes zeroed(size_t bytes) {
  void* memory = std::calloc(bytes ? bytes : 1, 1);
  if (!memory) throw OutOfDeviceMemory("no host memory for " + std::to_string(bytes) + " bytes");
  return HostBytes(static_cast<std::byte*>(memory));
}

size_t bytes_of(const Type& type) {
  return static_cast<size_t>(type.numel() * stablehlo::byte_size(type.dtype));
}

}  // namespace

void Storage::set_base(Type type) {
  base_bytes = bytes_of(type);
  base = std::move(type);
}

Storage* allocate_storage(Device& device, size_t nbytes) {
  return allocate_storage(device, nbytes, {DType::U8, {static_cast<int64_t>(nbytes)}});
}

Storage* allocate_storage(Device& device, size_t nbytes, Type base) {
  auto storage = std::make_unique<Storage>(device);
  storage->nbytes = nbytes;
  device.add(*storage);
  storage->set_base(std::move(base));
  storage->address = reserve_address(nbytes);
  note_allocation(device.index(), storage->address, nbytes);
  return storage.release();
}

Storage* allocate_storage(Device& device, const Type& base) {
  return allocate_storage(device, bytes_of(base), base);
}

void free_storage(Storage* storage) {
  note_free(storage->device.index(), storage->address, storage->nbytes);
  release_address(storage->address, storage->nbytes);
  if (storage->device.remove(*storage)) delete storage;
}

namespace {

/// Keeps the dtype, so that the tensor that resizes finds its own elements.
Type resized(const Type& base, size_t nbytes) {
  const int64_t width = stablehlo::byte_size(base.dtype);
  const auto size = static_cast<int64_t>(nbytes);
  return size % width == 0 ? Type{base.dtype, {size / width}} : Type{DType::U8, {size}};
}

/// A recorded operator has one type for a storage. So it can be emptied, which frees memory that a
/// program manages by itself, and filled again.
Type resized_in_capture(const Storage& storage, size_t nbytes) {
  if (storage.slot < 0) return resized(storage.base, nbytes);
  if (nbytes != 0 && nbytes != storage.base_bytes) {
    throw std::runtime_error(
        "a storage that operators of this graph use cannot change its size from " +
        std::to_string(storage.base_bytes) + " to " + std::to_string(nbytes) + " bytes");
  }
  return storage.base;
}

}  // namespace

void resize_storage(Storage& storage, size_t nbytes) {
  Device& device = storage.device;
  const size_t old_bytes = storage.nbytes;
  if (!device.captures()) {
    const auto lock = device.lock_value(storage);
  }
  HostBytes bytes;
  if (storage.value && nbytes != 0) {
    bytes = zeroed(std::max(nbytes, storage.base_bytes));
    device.download(storage, bytes.get());
    if (nbytes < storage.base_bytes)
      std::memset(bytes.get() + nbytes, 0, storage.base_bytes - nbytes);
  }
  Type base =
      device.captures() ? resized_in_capture(storage, nbytes) : resized(storage.base, nbytes);
  device.change_size(storage, nbytes);
  const uintptr_t address = reserve_address(nbytes);
  note_free(device.index(), storage.address, old_bytes);
  note_allocation(device.index(), address, nbytes);
  const auto lock = device.lock();
  pjrt::Buffer value;
  if (bytes) value = device.upload(bytes.get(), base);
  storage.set_base(std::move(base));
  storage.value = std::move(value);
  release_address(storage.address, old_bytes);
  storage.address = address;
}

void ensure_value(Storage& storage) {
  if (storage.value) return;
  if (storage.is_lost) {
    throw std::runtime_error(
        "the value of this tensor is not there: an operator that was to compute it failed");
  }
  const HostBytes bytes = zeroed(storage.base_bytes);
  storage.value = storage.device.upload(bytes.get(), storage.base);
}

void retype_storage(Storage& storage, const Type& type) {
  if (!storage.value) {
    storage.set_base(type);
    return;
  }
  const HostBytes bytes = zeroed(std::max(storage.base_bytes, bytes_of(type)));
  storage.value.to_host(bytes.get(), storage.base_bytes).await();
  storage.value = storage.device.upload(bytes.get(), type);
  storage.set_base(type);
}

}  // namespace torch_tpu::engine
