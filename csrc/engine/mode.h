// What decides how operators run, beside their arguments: set by the environment, then by the user.
#pragma once

#include <cstdint>

namespace torch_tpu::engine {

/// The schedule of operators that are called one by one.
enum class EagerMode : uint8_t {
  DeferNever,                   // Strict: each operator is a program of its own, and starts at once
  DeferNeverAndLaunchBlocking,  // Debug: the same, and the call waits and raises its errors
  DeferAndFuse,                 // Fused: operators are recorded, and run together when needed
};

/// First TORCH_TPU_LAUNCH_BLOCKING=1 (Debug), else TORCH_TPU_DEFER_AND_FUSE=1 (Fused), else Strict.
EagerMode eager_mode();
/// Runs what was recorded before, on all devices. May block.
void set_eager_mode(EagerMode mode);

}  // namespace torch_tpu::engine
