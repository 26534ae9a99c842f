// The current device of a thread.
#pragma once

#include <c10/core/Device.h>

#include "engine/runtime.h"

namespace torch_tpu::device {

/// Number of devices; 0 if there is no plugin. Starts nothing with a CPU plugin.
int device_count() noexcept;
/// Index of the thread's current device; starts nothing.
c10::DeviceIndex current_device() noexcept;
/// Throws if there is no such device.
void set_current_device(c10::DeviceIndex index);
void set_current_device_unchecked(c10::DeviceIndex index) noexcept;
/// The engine's device with this index (-1: the current one). Starts the runtime; throws torch
/// errors that say what is wrong: no plugin, no such device. While the thread captures a graph on
/// this device: the capture's device.
engine::Device& engine_device(c10::DeviceIndex index);

}  // namespace torch_tpu::device
