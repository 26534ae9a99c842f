#include "device/thread_defaults.h"

#include <ATen/autocast_mode.h>

namespace torch_tpu::device {

void set_thread_defaults() {
  constexpr auto kDevice = c10::DeviceType::PrivateUse1;
  if (!at::autocast::is_autocast_enabled(kDevice)) {
    at::autocast::set_autocast_dtype(kDevice, at::kBFloat16);
  }
}

}  // namespace torch_tpu::device
