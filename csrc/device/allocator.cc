#include "device/allocator.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <array>
#include <mutex>

#include "device/current.h"
#include "device/errors.h"
#include "device/memory.h"
#include "engine/address.h"
#include "engine/runtime.h"

namespace torch_tpu::device {
namespace {

using c10::CachingDeviceAllocator::DeviceStats;

/// PyTorch may call this from any thread, with or without the GIL.
void delete_storage(void* context) { engine::free_storage(static_cast<engine::Storage*>(context)); }

class Allocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override {
    engine::Device& device = engine_device(-1);
    return translated(nullptr,
                      [&] { return data_ptr_of(engine::allocate_storage(device, nbytes)); });
  }

  void copy_data(void* /*dest*/, const void* /*src*/, size_t /*count*/) const override {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "tpu memory has no addresses to copy from or to");
  }

  bool initialized() override { return engine::Runtime::started(); }
  void emptyCache(c10::MempoolId_t /*pool*/) override {}  // nothing is kept back
  void recordStream(const c10::DataPtr& /*ptr*/, c10::Stream /*stream*/) override {}

  DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const MemoryStats memory = memory_stats(index);
    DeviceStats stats;
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    for (auto* bytes : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
                        &stats.requested_bytes}) {
      (*bytes)[kAll] = memory.bytes;
    }
    for (auto* count : {&stats.allocation, &stats.active, &stats.segment}) {
      (*count)[kAll] = memory.count;
    }
    stats.num_ooms = memory.out_of_memory;
    stats.num_device_alloc = memory.count.allocated;
    stats.num_device_free = memory.count.freed;
    return stats;
  }

  void resetAccumulatedStats(c10::DeviceIndex index) override {
    reset_accumulated_memory_stats(index);
  }
  void resetPeakStats(c10::DeviceIndex index) override { reset_peak_memory_stats(index); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    return memory_info(index);
  }
};

Allocator& instance() {
  static Allocator* allocator = new Allocator;  // storages may be freed while the process ends
  return *allocator;
}

/// The live storage that an address is within, or null.
engine::Storage* find(const void* address) {
  const auto value = reinterpret_cast<uintptr_t>(address);
  if (!engine::is_device_address(value) || !engine::Runtime::started()) return nullptr;
  engine::Runtime& runtime = engine::Runtime::get();
  for (int i = 0; i < runtime.device_count(); ++i) {
    if (engine::Storage* found = runtime.device(i).find(value)) return found;
  }
  return nullptr;
}

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &instance());

}  // namespace

engine::Storage& storage_of(const c10::StorageImpl& storage) {
  const c10::DataPtr& ptr = storage.data_ptr();
  if (ptr.get_deleter() == &delete_storage) [[likely]] {
    return *static_cast<engine::Storage*>(ptr.get_context());
  }
  TORCH_CHECK(ptr.device().is_privateuseone(),
              "expected a storage of the tpu device, but this one is on ", ptr.device());
  // at::from_blob of one of our addresses: torch reads and writes storages through such aliases.
  engine::Storage* found = find(ptr.get());
  TORCH_CHECK(found && found->address == reinterpret_cast<uintptr_t>(ptr.get()),
              "this storage of the tpu device was not made by it: its address, ", ptr.get(),
              ", is not the start of one of its storages");
  return *found;
}

c10::DataPtr data_ptr_of(engine::Storage* storage) {
  const auto index = static_cast<c10::DeviceIndex>(storage->device.index());
  return {reinterpret_cast<void*>(storage->address), storage, &delete_storage,
          c10::Device(c10::DeviceType::PrivateUse1, index)};
}

c10::Storage make_storage(engine::Storage* storage) {
  const auto nbytes = static_cast<int64_t>(storage->nbytes);
  return c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), nbytes,
                                               data_ptr_of(storage), &instance(),
                                               /*resizable=*/true);
}

c10::Allocator* allocator() { return &instance(); }

void resize_storage(c10::StorageImpl& storage, size_t nbytes) {
  engine::Storage& handle = storage_of(storage);
  if (nbytes == handle.nbytes) return;
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  translated("resize_", [&] {
    const engine::WaitScope wait;
    engine::resize_storage(handle, nbytes);
  });
  // The handle stays; its address is new.
  storage.set_data_ptr(data_ptr_of(&handle)).release_context();
  storage.set_nbytes(nbytes);
}

c10::Device device_of_address(const void* address) {
  const engine::Storage* found = find(address);
  TORCH_CHECK(found, "the address ", address, " is not one of the tpu device");
  return {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(found->device.index())};
}

}  // namespace torch_tpu::device
