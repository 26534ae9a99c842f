// Devices, their properties and generators.
#include <ATen/detail/PrivateUse1HooksInterface.h>

#include "bindings/module.h"
#include "device/current.h"
#include "device/errors.h"
#include "device/generator.h"
#include "device/stream.h"

namespace torch_tpu::bindings {
namespace {

c10::DeviceIndex exchange_device(c10::DeviceIndex index) {
  const c10::DeviceIndex before = device::current_device();
  if (index >= 0) device::set_current_device(index);
  return before;
}

py::object to_python(const pjrt::Value& value) {
  return std::visit([](const auto& v) -> py::object { return py::cast(v); }, value);
}

/// What the plugin says of a device. Starts the runtime.
py::dict device_info(c10::DeviceIndex index) {
  engine::Device* device = nullptr;
  {
    const py::gil_scoped_release no_gil;
    device = &device::engine_device(index);
  }
  const pjrt::Device& raw = device->pjrt();
  py::dict d;
  d["kind"] = raw.kind();
  d["platform"] = device->client().platform_name();
  d["description"] = raw.to_string();
  d["id"] = raw.id();
  d["local_hardware_id"] = raw.local_hardware_id();
  d["total_memory"] = device->memory_limit();
  py::dict attributes;
  for (const auto& [name, value] : raw.attributes()) attributes[py::str(name)] = to_python(value);
  d["attributes"] = attributes;
  return d;
}

}  // namespace

void bind_device(py::module_& m) {
  m.def("is_available", [] { return at::detail::getPrivateUse1Hooks().isAvailable(); });
  m.def("device_count", &device::device_count);
  m.def("current_device", [] { return static_cast<int>(device::current_device()); });
  m.def("set_device", torch::wrap_pybind_function(device::set_current_device));
  m.def("exchange_device", torch::wrap_pybind_function(exchange_device));
  m.def("synchronize", torch::wrap_pybind_function_no_gil(device::synchronize));
  m.def("device_info", torch::wrap_pybind_function(device_info));
  m.def("default_generator", torch::wrap_pybind_function(device::default_generator));
  m.def("seed_default_generators", &device::seed_default_generators);
}

}  // namespace torch_tpu::bindings
