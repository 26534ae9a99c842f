// Memory statistics.
#include "device/memory.h"

#include "bindings/module.h"
#include "device/current.h"
#include "engine/memory_history.h"
#include "engine/room.h"

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

/// As PyTorch's snapshots show them; none where nothing was recorded.
py::list frames_of(const engine::Frames& frames) {
  py::list out;
  if (!frames) return out;
  for (const engine::Frame& frame : *frames) {
    py::dict d;
    d["filename"] = frame.file;
    d["line"] = frame.line;
    d["name"] = frame.function;
    out.append(d);
  }
  return out;
}

py::dict allocation_frames(int device) {
  py::dict out;
  for (const auto& [address, frames] : engine::allocation_frames(device)) {
    out[py::int_(address)] = frames_of(frames);
  }
  return out;
}

py::list memory_events(int device) {
  py::list out;
  for (const engine::MemoryEvent& event : engine::memory_events(device)) {
    const bool is_free = event.kind == engine::MemoryEvent::Kind::Free;
    py::dict d;
    d["action"] = is_free ? "free_completed" : "alloc";
    d["addr"] = event.address;
    d["size"] = event.bytes;
    d["stream"] = 0;
    d["time_us"] = event.microseconds;
    d["frames"] = frames_of(event.frames);
    out.append(d);
  }
  return out;
}

std::string memory_usage(c10::DeviceIndex index) { return device::engine_device(index).usage(); }

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
  m.def("memory_usage", torch::wrap_pybind_function(memory_usage));
  m.def("record_memory_history", &engine::record_memory_history);
  m.def("allocation_frames", &allocation_frames);
  m.def("memory_events", &memory_events);
  m.def("release_caches", &engine::release_caches, py::call_guard<py::gil_scoped_release>());
  m.def("memory_info", torch::wrap_pybind_function(device::memory_info));
  m.def("reset_peak_memory_stats", torch::wrap_pybind_function(device::reset_peak_memory_stats));
  m.def("reset_accumulated_memory_stats",
        torch::wrap_pybind_function(device::reset_accumulated_memory_stats));
}

}  // namespace torch_tpu::bindings
