#include "device/host_allocator.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace torch_tpu::device {
namespace {

constexpr size_t kAlignment = 64;

class HostAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override;
  c10::DeleterFnPtr raw_deleter() const override;

  void copy_data(void* dest, const void* src, size_t count) const override {
    std::memcpy(dest, src, count);
  }
  /// Copies from pinned memory keep its storage alive themselves.
  bool record_event(void* /*ptr*/, void* /*ctx*/, c10::Stream /*stream*/) override { return true; }
  void empty_cache() override {}

  at::HostStats get_stats() override {
    std::shared_lock lock(mutex_);
    return stats_;
  }
  void reset_accumulated_stats() override {
    std::unique_lock lock(mutex_);
    for_each_stat([](auto& stat) { stat.reset_accumulated(); });
    stats_.num_host_alloc = stats_.num_host_free = 0;
  }
  void reset_peak_stats() override {
    std::unique_lock lock(mutex_);
    for_each_stat([](auto& stat) { stat.reset_peak(); });
  }

  bool owns(const void* address) {
    const auto value = reinterpret_cast<uintptr_t>(address);
    std::shared_lock lock(mutex_);
    auto after = blocks_.upper_bound(value);
    if (after == blocks_.begin()) return false;
    const auto& [start, size] = *std::prev(after);
    return value - start < size;
  }

  void release(void* memory) {
    if (!memory) return;
    {
      std::unique_lock lock(mutex_);
      const auto block = blocks_.find(reinterpret_cast<uintptr_t>(memory));
      stats_.active_requests.decrease(1);
      stats_.active_bytes.decrease(block->second);
      stats_.allocations.decrease(1);
      stats_.allocated_bytes.decrease(block->second);
      ++stats_.num_host_free;
      blocks_.erase(block);
    }
    std::free(memory);
  }

 private:
  template <class F>
  void for_each_stat(F f) {
    f(stats_.active_requests);
    f(stats_.active_bytes);
    f(stats_.allocations);
    f(stats_.allocated_bytes);
  }

  std::shared_mutex mutex_;
  std::map<uintptr_t, size_t> blocks_;  // size by address
  at::HostStats stats_;
};

HostAllocator& instance() {
  static HostAllocator* allocator = new HostAllocator;
  return *allocator;
}

void delete_block(void* memory) { instance().release(memory); }

c10::DataPtr HostAllocator::allocate(size_t nbytes) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (nbytes == 0) return {nullptr, nullptr, &delete_block, cpu};
  const size_t size = (nbytes + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, size);
  TORCH_CHECK_WITH(OutOfMemoryError, memory, "no host memory for ", nbytes, " bytes");
  std::unique_lock lock(mutex_);
  blocks_.emplace(reinterpret_cast<uintptr_t>(memory), size);
  stats_.active_requests.increase(1);
  stats_.active_bytes.increase(size);
  stats_.allocations.increase(1);
  stats_.allocated_bytes.increase(size);
  ++stats_.num_host_alloc;
  return {memory, memory, &delete_block, cpu};
}

c10::DeleterFnPtr HostAllocator::raw_deleter() const { return &delete_block; }

REGISTER_HOST_ALLOCATOR(at::kPrivateUse1, &instance());

}  // namespace

at::HostAllocator* host_allocator() { return &instance(); }

bool is_pinned(const void* address) { return instance().owns(address); }

}  // namespace torch_tpu::device
