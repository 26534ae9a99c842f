// Streams. A device runs everything in the order in which it was given, so that streams only have
// names: work on one never overtakes work on another, and waiting for one is waiting for all.
#pragma once

#include <c10/core/Stream.h>

namespace torch_tpu::device {

/// The thread's current stream of a device (-1: the current device).
c10::Stream current_stream(c10::DeviceIndex index) noexcept;
/// Makes it the thread's current stream of its device; returns the one before.
c10::Stream exchange_stream(const c10::Stream& stream);
c10::Stream default_stream(c10::DeviceIndex index) noexcept;
/// A stream with an id of its own.
c10::Stream new_stream(c10::DeviceIndex index);

/// True if nothing is running on the device.
bool is_idle(c10::DeviceIndex index);
/// Waits for all work given to the device; throws what went wrong in it. Blocks, without the GIL.
void synchronize(c10::DeviceIndex index);

}  // namespace torch_tpu::device
