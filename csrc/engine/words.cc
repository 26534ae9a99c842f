#include "engine/words.h"

#include <array>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

namespace torch_tpu::engine {
namespace {

constexpr size_t kSlotBytes = 64;  // CPU plugins want this alignment

/// Slots that no program reads. Never destroyed: the runtime gives slots back while the process
/// ends.
class SlotPool {
 public:
  static SlotPool& get() {
    static SlotPool* instance = new SlotPool;
    return *instance;
  }

  void* take() {
    {
      std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        void* slot = free_.back();
        free_.pop_back();
        return slot;
      }
    }
    return ::operator new(kSlotBytes, std::align_val_t{kSlotBytes});
  }

  void give(void* slot) {
    std::lock_guard lock(mutex_);
    free_.push_back(slot);
  }

 private:
  std::mutex mutex_;
  std::vector<void*> free_;
};

void give_back(void* slot, void*) { SlotPool::get().give(slot); }

}  // namespace

pjrt::Buffer words_operand(pjrt::Client& client, const pjrt::Device& device, bool is_host,
                           const uint32_t* words, int32_t count) {
  const std::array<int64_t, 1> dims{count};
  const size_t bytes = static_cast<size_t>(count) * sizeof(uint32_t);
  if (!is_host || bytes > kSlotBytes) {
    return client.buffer_from_host(words, PJRT_Buffer_Type_U32, dims, {}, device,
                                   pjrt::HostBufferSemantics::ImmutableOnlyDuringCall);
  }
  void* slot = SlotPool::get().take();
  std::memcpy(slot, words, bytes);
  try {
    return client.view_of_device_memory(slot, PJRT_Buffer_Type_U32, dims, device, give_back,
                                        nullptr);
  } catch (...) {
    SlotPool::get().give(slot);
    throw;
  }
}

}  // namespace torch_tpu::engine
