#include "device/stream.h"

#include <array>
#include <atomic>
#include <limits>
#include <utility>

#include "device/current.h"
#include "device/errors.h"

namespace torch_tpu::device {
namespace {

constexpr size_t kMostDevices = std::numeric_limits<c10::DeviceIndex>::max() + 1;
thread_local std::array<c10::StreamId, kMostDevices> current_ids{};

c10::DeviceIndex resolved(c10::DeviceIndex index) { return index < 0 ? current_device() : index; }

c10::Stream stream_of(c10::DeviceIndex index, c10::StreamId id) {
  return c10::Stream(c10::Stream::UNSAFE, c10::Device(c10::DeviceType::PrivateUse1, index), id);
}

}  // namespace

c10::Stream current_stream(c10::DeviceIndex index) noexcept {
  index = resolved(index);
  return stream_of(index, current_ids[index]);
}

c10::Stream exchange_stream(const c10::Stream& stream) {
  const c10::DeviceIndex index = resolved(stream.device_index());
  return stream_of(index, std::exchange(current_ids[index], stream.id()));
}

c10::Stream default_stream(c10::DeviceIndex index) noexcept {
  return stream_of(resolved(index), 0);
}

c10::Stream new_stream(c10::DeviceIndex index) {
  static std::atomic<c10::StreamId> next{1};
  return stream_of(resolved(index), next++);
}

bool is_idle(c10::DeviceIndex index) {
  if (!engine::Runtime::started()) return true;
  engine::Device& device = engine_device(index);
  return translated("query", [&] { return device.outstanding().empty(); });
}

void synchronize(c10::DeviceIndex index) {
  if (!engine::Runtime::started()) return;
  engine::Device& device = engine_device(index);
  translated("synchronize", [&] {
    const engine::WaitScope wait;
    device.synchronize();
  });
}

}  // namespace torch_tpu::device
