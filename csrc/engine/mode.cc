#include "engine/mode.h"

#include <atomic>

#include "engine/config.h"
#include "engine/recorder.h"
#include "engine/runtime.h"

namespace torch_tpu::engine {
namespace {

EagerMode initial_mode() {
  if (config().launch_blocking) return EagerMode::DeferNeverAndLaunchBlocking;
  return config().defer_and_fuse ? EagerMode::DeferAndFuse : EagerMode::DeferNever;
}

std::atomic<EagerMode>& mode() {
  static std::atomic<EagerMode> mode{initial_mode()};
  return mode;
}

}  // namespace

EagerMode eager_mode() { return mode().load(std::memory_order_relaxed); }

void set_eager_mode(EagerMode new_mode) {
  mode().store(new_mode);
  if (!Runtime::started() || Runtime::in_bad_fork()) return;
  Runtime& runtime = Runtime::get();
  for (int i = 0; i < runtime.device_count(); ++i) {
    Device& device = runtime.device(i);
    const auto lock = device.lock();
    device.recorder().flush();
  }
}

}  // namespace torch_tpu::engine
