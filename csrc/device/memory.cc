#include "device/memory.h"

#include <algorithm>
#include <array>
#include <mutex>

#include "device/current.h"
#include "device/errors.h"
#include "engine/runtime.h"

namespace torch_tpu::device {
namespace {

/// What the counters were at the last reset of the accumulated ones.
struct Baselines {
  std::mutex mutex;
  std::array<engine::MemoryCounters, 128> of_device;  // as many as c10::DeviceIndex has;
};

Baselines& baselines() {
  static Baselines* instance = new Baselines;
  return *instance;
}

engine::MemoryCounters baseline(int index) {
  std::lock_guard lock(baselines().mutex);
  return baselines().of_device[index];
}

}  // namespace

MemoryStats memory_stats(c10::DeviceIndex index) {
  MemoryStats stats;
  if (!engine::Runtime::started()) return stats;
  engine::Device& device = engine_device(index);
  const engine::MemoryCounters now = device.memory();
  const engine::MemoryCounters then = baseline(device.index());
  stats.bytes.current = now.allocated;
  stats.bytes.peak = now.peak_allocated;
  stats.bytes.allocated = now.allocated_total - then.allocated_total;
  stats.bytes.freed = now.freed_total - then.freed_total;
  stats.count.current = now.allocations - now.frees;
  stats.count.peak = now.peak_count;
  stats.count.allocated = now.allocations - then.allocations;
  stats.count.freed = now.frees - then.frees;
  stats.out_of_memory = now.out_of_memory - then.out_of_memory;
  return stats;
}

void reset_accumulated_memory_stats(c10::DeviceIndex index) {
  if (!engine::Runtime::started()) return;
  engine::Device& device = engine_device(index);
  const engine::MemoryCounters now = device.memory();
  std::lock_guard lock(baselines().mutex);
  baselines().of_device[device.index()] = now;
}

void reset_peak_memory_stats(c10::DeviceIndex index) {
  if (engine::Runtime::started()) engine_device(index).reset_peak_memory();
}

std::pair<size_t, size_t> memory_info(c10::DeviceIndex index) {
  engine::Device& device = engine_device(index);
  return translated("mem_get_info", [&] {
    const int64_t total = device.memory_limit();
    int64_t used = device.memory().allocated;
    // The plugin's own count, where it keeps one, holds programs and temporaries too.
    if (const auto stats = device.pjrt().memory_stats()) used = std::max(used, stats->bytes_in_use);
    return std::pair<size_t, size_t>(std::max<int64_t>(total - used, 0), total);
  });
}

}  // namespace torch_tpu::device
