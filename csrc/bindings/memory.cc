// Memory statistics.
#include "device/memory.h"

#include "bindings/module.h"
#include "device/current.h"

namespace torch_tpu::bindings {
namespace {

py::dict stat(const c10::CachingAllocator::Stat& s) {
  py::dict d;
  d["current"] = s.current;
  d["peak"] = s.peak;
  d["allocated"] = s.allocated;
  d["freed"] = s.freed;
  return d;
}

py::dict memory_stats(c10::DeviceIndex index) {
  const device::MemoryStats stats = device::memory_stats(index);
  py::dict d;
  d["bytes"] = stat(stats.bytes);
  d["count"] = stat(stats.count);
  d["out_of_memory"] = stats.out_of_memory;
  return d;
}

/// (address, bytes) of each live storage. Starts nothing.
std::vector<std::pair<uintptr_t, size_t>> storages(c10::DeviceIndex index) {
  if (!engine::Runtime::started()) return {};
  return device::engine_device(index).storages();
}

double memory_fraction(c10::DeviceIndex index) {
  return device::engine_device(index).memory_fraction();
}

void set_memory_fraction(c10::DeviceIndex index, double fraction) {
  device::engine_device(index).set_memory_fraction(fraction);
}

}  // namespace

void bind_memory(py::module_& m) {
  m.def("memory_stats", torch::wrap_pybind_function(memory_stats));
  m.def("memory_fraction", torch::wrap_pybind_function(memory_fraction));
  m.def("set_memory_fraction", torch::wrap_pybind_function(set_memory_fraction));
  m.def("storages", torch::wrap_pybind_function(storages));
  m.def("memory_info", torch::wrap_pybind_function(device::memory_info));
  m.def("reset_peak_memory_stats", torch::wrap_pybind_function(device::reset_peak_memory_stats));
  m.def("reset_accumulated_memory_stats",
        torch::wrap_pybind_function(device::reset_accumulated_memory_stats));
}

}  // namespace torch_tpu::bindings
