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

/// A view of a slot with these words; `memory` gets the slot. The runtime gives it back when the
/// last program that reads it has ended.
pjrt::Buffer view_of_slot(pjrt::Client& client, const pjrt::Device& device, const uint32_t* words,
                          int32_t count, void*& memory) {
  memory = SlotPool::get().take();
  std::memcpy(memory, words, static_cast<size_t>(count) * sizeof(uint32_t));
  try {
    return client.view_of_device_memory(memory, PJRT_Buffer_Type_U32, std::array<int64_t, 1>{count},
                                        device, give_back, nullptr);
  } catch (...) {
    SlotPool::get().give(memory);
    memory = nullptr;
    throw;
  }
}

}  // namespace

PJRT_Buffer* WordsOperand::set(pjrt::Client& client, const pjrt::Device& device, bool is_host,
                               const uint32_t* words, int32_t count) {
  const size_t bytes = static_cast<size_t>(count) * sizeof(uint32_t);
  if (operand_ && std::memcmp(words_.data(), words, bytes) == 0) return operand_.raw();
  if (operand_ && memory_) {
    std::memcpy(memory_, words, bytes);
  } else if (is_host && bytes <= kSlotBytes) {
    operand_ = view_of_slot(client, device, words, count, memory_);
  } else {
    operand_ =
        client.buffer_from_host(words, PJRT_Buffer_Type_U32, std::array<int64_t, 1>{count}, {},
                                device, pjrt::HostBufferSemantics::ImmutableOnlyDuringCall);
  }
  words_.assign(words, words + count);
  return operand_.raw();
}

}  // namespace torch_tpu::engine
