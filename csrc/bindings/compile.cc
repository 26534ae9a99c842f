// What decides how operators are compiled, and why they were.
#include "aten/precision.h"
#include "bindings/module.h"
#include "device/current.h"
#include "engine/compile_log.h"
#include "engine/disk_cache.h"

namespace torch_tpu::bindings {
namespace {

using stablehlo::Precision;

std::optional<int> own_precision() {
  const std::optional<Precision> own = aten::own_precision();
  if (!own) return std::nullopt;
  return static_cast<int>(*own);
}

void set_precision(std::optional<int> precision) {
  aten::set_precision(precision ? std::optional(static_cast<Precision>(*precision)) : std::nullopt);
}

py::list compile_records() {
  py::list records;
  for (const engine::CompileRecord& record : engine::compile_records()) {
    py::dict d;
    d["number"] = record.number;
    d["operators"] = record.operators;
    d["num_operators"] = record.num_operators;
    d["where"] = record.where;
    d["milliseconds"] = record.milliseconds;
    d["from_disk"] = record.from_disk;
    d["reason"] = record.reason;
    d["hint"] = record.hint;
    records.append(d);
  }
  return records;
}

/// Starts the runtime, which tells for what this cache is.
void take_in_cache_file(const std::string& path) {
  const py::gil_scoped_release no_gil;
  device::engine_device(-1);
  engine::DiskCache::get().take_in(path);
}

}  // namespace

void bind_compile(py::module_& m) {
  m.def("precision", [] { return static_cast<int>(aten::precision()); });
  m.def("own_precision", &own_precision);
  m.def("set_precision", &set_precision);
  m.def("compile_records", &compile_records);
  m.def("plugin_of_cache_file", &engine::plugin_of_cache_file);
  m.def("take_in_cache_file", &take_in_cache_file);
}

}  // namespace torch_tpu::bindings
