// What PyTorch asks of an accelerator that it knows only by its device type.
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <unistd.h>

#include "device/allocator.h"
#include "device/current.h"
#include "device/generator.h"
#include "device/host_allocator.h"
#include "engine/runtime.h"

namespace torch_tpu::device {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override {
    try {
      if (engine::Runtime::started()) return true;
      const std::string path = engine::plugin_choice().path;
      return !path.empty() && access(path.c_str(), R_OK) == 0;
    } catch (...) {
      return false;
    }
  }
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override {
    return engine::Runtime::started();
  }
  void init() const override { engine_device(-1); }

  c10::DeviceIndex deviceCount() const override {
    return static_cast<c10::DeviceIndex>(device_count());
  }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex before = current_device();
    set_current_device(index);
    return before;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current_device() : exchangeDevice(index);
  }

  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return default_generator(index);
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<GeneratorImpl>(index < 0 ? current_device() : index);
  }

  c10::Device getDeviceFromPtr(void* data) const override { return device_of_address(data); }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return host_allocator(); }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t nbytes) const override {
    resize_storage(*storage.unsafeGetStorageImpl(), nbytes);
  }
};

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(new Hooks);  // PyTorch keeps it for ever
  return true;
}();

}  // namespace
}  // namespace torch_tpu::device
