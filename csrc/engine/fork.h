// A child of a process in which the runtime was started cannot use it: its threads do not exist
// there.
#pragma once

#include <atomic>

namespace torch_tpu::engine {

extern std::atomic<bool> bad_fork;

[[noreturn]] void throw_bad_fork();

/// Throws std::runtime_error in such a child.
inline void refuse_bad_fork() {
  if (bad_fork.load(std::memory_order_relaxed)) [[unlikely]] {
    throw_bad_fork();
  }
}

}  // namespace torch_tpu::engine
