// Who allocated device memory: recorded while somebody wants to know.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace torch_tpu::engine {

/// A line of the user's program, as PyTorch's snapshots show it.
struct Frame {
  std::string file;
  int line = 0;
  std::string function;
};
using Frames = std::shared_ptr<const std::vector<Frame>>;  // innermost first; null: not recorded

struct MemoryEvent {
  enum class Kind : uint8_t { Allocate, Free };
  Kind kind;
  uintptr_t address;
  size_t bytes;
  int64_t microseconds;  // since the epoch
  Frames frames;
};

/// Starts to record, and forgets what was recorded before: the frames of each allocation that
/// lives, and the latest `max_events` events of each device. 0: stops, and forgets.
void record_memory_history(size_t max_events);

/// Called for each storage of the device, where its address is known. Costs a load while nothing is
/// recorded. note_allocation() asks for the frames, so that no lock must be held which that may
/// wait for; note_free() may be called from anywhere.
void note_allocation(int device, uintptr_t address, size_t bytes);
void note_free(int device, uintptr_t address, size_t bytes);

std::vector<MemoryEvent> memory_events(int device);
/// Of the allocations that live and were recorded.
std::vector<std::pair<uintptr_t, Frames>> allocation_frames(int device);

/// What tells the frames of this thread's Python program.
void set_frames_hook(Frames (*hook)());

}  // namespace torch_tpu::engine
