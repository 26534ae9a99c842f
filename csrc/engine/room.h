// What happens when the plugin has no device memory left.
#pragma once

#include <utility>

#include "pjrt/error.h"

namespace torch_tpu::engine {

/// Frees what can be made again: programs that nobody uses, with their operands. Any thread, with
/// or without a device's mutex. Gives the number of programs.
size_t release_caches();

/// Runs an action of the plugin that needs device memory. If there is none, it releases what can be
/// made again, and tries once more.
template <class F>
auto with_room(const F& action) -> decltype(action()) {
  try {
    return action();
  } catch (const pjrt::Error& error) {
    if (error.code() != pjrt::Code::ResourceExhausted || release_caches() == 0) throw;
  }
  return action();
}

}  // namespace torch_tpu::engine
