#include "engine/memory_history.h"

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>

namespace torch_tpu::engine {
namespace {

std::atomic<bool> records{false};
std::atomic<Frames (*)()> frames_hook{nullptr};

struct OfDevice {
  std::deque<MemoryEvent> events;
  std::unordered_map<uintptr_t, Frames> live;
};

struct History {
  std::mutex mutex;
  size_t max_events = 0;
  std::map<int, OfDevice> devices;
};

History& history() {
  static auto* instance = new History;  // storages may be freed while the process ends
  return *instance;
}

int64_t now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(time).count();
}

void note(int device, MemoryEvent event) {
  History& h = history();
  std::lock_guard lock(h.mutex);
  if (h.max_events == 0) return;
  OfDevice& of_device = h.devices[device];
  if (event.kind == MemoryEvent::Kind::Allocate) {
    of_device.live[event.address] = event.frames;
  } else {
    of_device.live.erase(event.address);
  }
  of_device.events.push_back(std::move(event));
  if (of_device.events.size() > h.max_events) of_device.events.pop_front();
}

}  // namespace

void record_memory_history(size_t max_events) {
  History& h = history();
  std::lock_guard lock(h.mutex);
  h.max_events = max_events;
  h.devices.clear();
  records.store(max_events > 0);
}

void note_allocation(int device, uintptr_t address, size_t bytes) {
  if (!records.load(std::memory_order_relaxed)) [[likely]]
    return;
  const auto hook = frames_hook.load();
  note(device, {MemoryEvent::Kind::Allocate, address, bytes, now(), hook ? hook() : nullptr});
}

void note_free(int device, uintptr_t address, size_t bytes) {
  if (!records.load(std::memory_order_relaxed)) [[likely]]
    return;
  note(device, {MemoryEvent::Kind::Free, address, bytes, now(), nullptr});
}

std::vector<MemoryEvent> memory_events(int device) {
  History& h = history();
  std::lock_guard lock(h.mutex);
  const auto found = h.devices.find(device);
  if (found == h.devices.end()) return {};
  return {found->second.events.begin(), found->second.events.end()};
}

std::vector<std::pair<uintptr_t, Frames>> allocation_frames(int device) {
  History& h = history();
  std::lock_guard lock(h.mutex);
  const auto found = h.devices.find(device);
  if (found == h.devices.end()) return {};
  return {found->second.live.begin(), found->second.live.end()};
}

void set_frames_hook(Frames (*hook)()) { frames_hook.store(hook); }

}  // namespace torch_tpu::engine
