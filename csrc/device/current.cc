#include "device/current.h"

#include <c10/util/Exception.h>

#include "device/errors.h"
#include "device/thread_defaults.h"
#include "engine/capture.h"
#include "engine/config.h"

namespace torch_tpu::device {
namespace {

thread_local c10::DeviceIndex current = 0;

[[noreturn]] void refuse(int index, int count) {
  if (count == 0) {
    const engine::PluginChoice choice = engine::plugin_choice();
    TORCH_CHECK(!choice.path.empty(), "No PJRT plugin for the tpu device: ", choice.problem);
  }
  const std::string advice =
      engine::plugin_choice().kind == "cpu"
          ? " The CPU plugin makes one device unless TORCH_TPU_CPU_DEVICES says more."
          : "";
  TORCH_CHECK(
      false, "tpu:", index, " does not exist: there ", count == 1 ? "is " : "are ", count,
      count == 1 ? " tpu device" : " tpu devices",
      count > 0 ? c10::str(" (tpu:0", count > 1 ? c10::str(" to tpu:", count - 1) : "", ")") : "",
      ".", advice);
}

}  // namespace

int device_count() noexcept {
  if (engine::Runtime::started() && !engine::Runtime::in_bad_fork()) {
    return engine::Runtime::get().device_count();
  }
  return engine::device_count_hint();
}

c10::DeviceIndex current_device() noexcept { return current; }

void set_current_device(c10::DeviceIndex index) {
  if (index == current) return;
  if (index < 0 || index >= device_count()) refuse(index, device_count());
  current = index;
}

void set_current_device_unchecked(c10::DeviceIndex index) noexcept { current = index; }

engine::Device& engine_device(c10::DeviceIndex index) {
  ensure_thread_defaults();
  try {
    engine::Runtime& runtime = engine::Runtime::get();
    const int wanted = index < 0 ? current : index;
    if (wanted >= runtime.device_count()) [[unlikely]] {
      refuse(wanted, runtime.device_count());
    }
    engine::Capture* capture = engine::Capture::current();
    if (capture && capture->target().index() == wanted) [[unlikely]] {
      return capture->device();
    }
    return runtime.device(wanted);
  } catch (...) {
    rethrow_as_torch_error(nullptr);
  }
}

}  // namespace torch_tpu::device
