// Memory statistics of a device, in the form in which PyTorch reports them.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace torch_tpu::device {

struct MemoryStats {
  c10::CachingAllocator::Stat bytes;  // of storages
  c10::CachingAllocator::Stat count;  // of storages
  int64_t out_of_memory = 0;
};

/// Of a device (-1: the current one). All zero while the runtime has not started; starts nothing.
MemoryStats memory_stats(c10::DeviceIndex index);
void reset_accumulated_memory_stats(c10::DeviceIndex index);
void reset_peak_memory_stats(c10::DeviceIndex index);

/// Free and total bytes. Starts the runtime.
std::pair<size_t, size_t> memory_info(c10::DeviceIndex index);

}  // namespace torch_tpu::device
