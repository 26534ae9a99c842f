// What PyTorch's device and stream guards, torch.Stream and torch.Event call.
#include <c10/core/DeviceCapability.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include "device/current.h"
#include "device/event.h"
#include "device/stream.h"

namespace torch_tpu::device {
namespace {

using c10::DeviceIndex;
using c10::DeviceType;
using c10::Stream;

/// Element types that XLA computes with. Quantized and sub-byte types are not among them.
uint64_t supported_types() {
  uint64_t bits = 0;
  for (const auto type :
       {c10::kIndex_Byte, c10::kIndex_Char, c10::kIndex_Short, c10::kIndex_Int, c10::kIndex_Long,
        c10::kIndex_UInt16, c10::kIndex_UInt32, c10::kIndex_UInt64, c10::kIndex_Bool,
        c10::kIndex_Half, c10::kIndex_BFloat16, c10::kIndex_Float, c10::kIndex_Double,
        c10::kIndex_ComplexFloat, c10::kIndex_ComplexDouble, c10::kIndex_Float8_e5m2,
        c10::kIndex_Float8_e4m3fn, c10::kIndex_Float8_e5m2fnuz, c10::kIndex_Float8_e4m3fnuz}) {
    bits |= uint64_t{1} << type;
  }
  return bits;
}

Event& event_of(void* event) { return *static_cast<Event*>(event); }

struct GuardImpl final : c10::impl::DeviceGuardImplInterface {
  static constexpr DeviceType static_type = DeviceType::PrivateUse1;

  DeviceType type() const override { return static_type; }

  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {static_type, current_device()}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.is_privateuseone(), "expected a tpu device, got ", device);
    if (device.has_index()) set_current_device(device.index());
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) set_current_device_unchecked(device.index());
  }
  DeviceIndex deviceCount() const noexcept override {
    return static_cast<DeviceIndex>(device_count());
  }
  c10::DeviceCapability getDeviceCapability(c10::Device /*device*/) const override {
    c10::DeviceCapability capability;
    capability.capability_data.capability_bits = supported_types();
    return capability;
  }

  Stream getStream(c10::Device device) const override { return current_stream(device.index()); }
  Stream getDefaultStream(c10::Device device) const override {
    return default_stream(device.index());
  }
  Stream getStreamFromGlobalPool(c10::Device device, bool /*high_priority*/) const override {
    return new_stream(device.index());
  }
  Stream getNewStream(c10::Device device, int /*priority*/) const override {
    return new_stream(device.index());
  }
  Stream exchangeStream(Stream stream) const override { return exchange_stream(stream); }
  void* getStreamNativeHandle(const Stream stream) const override {
    return reinterpret_cast<void*>(static_cast<uintptr_t>(stream.id()));
  }
  bool queryStream(const Stream& stream) const override { return is_idle(stream.device_index()); }
  void synchronizeStream(const Stream& stream) const override {
    synchronize(stream.device_index());
  }
  void synchronizeDevice(const DeviceIndex index) const override { synchronize(index); }

  void record(void** event, const Stream& stream, const DeviceIndex index,
              const c10::EventFlag flag) const override {
    TORCH_CHECK(index == -1 || index == stream.device_index(), "Event device index ",
                static_cast<int>(index), " does not match the recording stream's device index ",
                static_cast<int>(stream.device_index()), ".");
    if (!*event) *event = new Event;
    event_of(*event).record(stream.device_index(), flag == c10::EventFlag::BACKEND_DEFAULT);
  }
  void block(void* /*event*/, const Stream& /*stream*/) const override {
    // Work given later runs later, and a value of another device carries its own dependency.
  }
  bool queryEvent(void* event) const override { return !event || event_of(event).query(); }
  void synchronizeEvent(void* event) const override {
    if (event) event_of(event).synchronize();
  }
  void destroyEvent(void* event, const DeviceIndex /*index*/) const noexcept override {
    delete static_cast<Event*>(event);
  }
  double elapsedTime(void* begin, void* end, const DeviceIndex /*index*/) const override {
    TORCH_CHECK(begin && end, "Both events must be recorded before calculating elapsed time.");
    return event_of(begin).milliseconds_until(event_of(end));
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, GuardImpl);

}  // namespace
}  // namespace torch_tpu::device
