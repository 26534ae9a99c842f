// What PyTorch keeps per thread and this device wants otherwise.
#pragma once

namespace torch_tpu::device {

/// Makes bfloat16 this thread's autocast type for the device, unless autocast is on already.
void set_thread_defaults();

/// The same, once for each thread. PyTorch has no place to say it for all threads, so each does at
/// its first use of the device.
inline void ensure_thread_defaults() {
  thread_local const bool done = (set_thread_defaults(), true);
  (void)done;
}

}  // namespace torch_tpu::device
