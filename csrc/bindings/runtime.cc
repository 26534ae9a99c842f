// The runtime, its plugin and its counters.
#include "engine/runtime.h"

#include "aten/fallback.h"
#include "bindings/module.h"
#include "device/current.h"
#include "device/errors.h"
#include "engine/config.h"
#include "engine/disk_cache.h"
#include "engine/mode.h"
#include "pjrt/plugin.h"

namespace torch_tpu::bindings {
namespace {

py::dict counters() {
  const engine::Counters& c = engine::counters();
  py::dict d;
  d["compiles"] = c.compiles.load();
  d["executions"] = c.executions.load();
  d["cache_hits"] = c.cache_hits.load();
  d["disk_cache_hits"] = c.disk_cache_hits.load();
  d["disk_cache_misses"] = c.disk_cache_misses.load();
  d["cpu_fallbacks"] = c.cpu_fallbacks.load();
  d["compile_seconds"] = static_cast<double>(c.compile_nanoseconds.load()) * 1e-9;
  return d;
}

/// Starts the plugin.
void start() {
  const py::gil_scoped_release no_gil;
  device::engine_device(-1);
}

py::dict plugin_choice() {
  const engine::PluginChoice choice = engine::plugin_choice();
  py::dict d;
  d["path"] = choice.path;
  d["kind"] = choice.kind;
  d["problem"] = choice.problem;
  return d;
}

/// What the started plugin says of itself.
py::dict plugin_info() {
  start();
  engine::Runtime& runtime = engine::Runtime::get();
  const pjrt::Plugin& plugin = runtime.plugin();
  py::dict d;
  d["path"] = plugin.path();
  d["api_version"] = py::make_tuple(plugin.api_version().major, plugin.api_version().minor);
  d["platform_name"] = runtime.client().platform_name();
  d["platform_version"] = runtime.client().platform_version();
  py::dict attributes;
  for (const auto& [name, value] : plugin.attributes()) attributes[py::str(name)] = value;
  d["attributes"] = attributes;
  return d;
}

const char* fallback_mode() {
  switch (engine::config().fallback) {
    case engine::FallbackMode::Error:
      return "error";
    case engine::FallbackMode::Silent:
      return "silent";
    default:
      return "warn";
  }
}

py::dict config() {
  return device::translated(nullptr, [] {
    const engine::Config& c = engine::config();
    py::dict d;
    d["plugin_path"] = c.plugin_path;
    d["cpu_devices"] = c.cpu_devices;
    d["launch_blocking"] = c.launch_blocking;
    d["defer_and_fuse"] = c.defer_and_fuse;
    d["verbose"] = c.verbose;
    d["cpu_fallback"] = fallback_mode();
    d["disk_cache"] = c.disk_cache;
    d["cache_dir"] = c.cache_dir;
    d["cache_bytes"] = c.cache_bytes;
    d["memory_limit"] = c.memory_limit;
    return d;
  });
}

}  // namespace

void bind_runtime(py::module_& m) {
  m.def("set_default_plugin", [](std::string path, std::string kind, std::string problem) {
    engine::set_default_plugin({std::move(path), std::move(kind), std::move(problem)});
  });
  m.def("plugin_choice", torch::wrap_pybind_function(plugin_choice));
  m.def("plugin_info", torch::wrap_pybind_function(plugin_info));
  m.def("config", torch::wrap_pybind_function(config));
  m.def("eager_mode", [] { return static_cast<int>(engine::eager_mode()); });
  m.def("set_eager_mode", torch::wrap_pybind_function([](int mode) {
          const py::gil_scoped_release no_gil;
          device::translated("set_eager_mode",
                             [&] { engine::set_eager_mode(static_cast<engine::EagerMode>(mode)); });
        }));
  m.def("start", torch::wrap_pybind_function(start));
  m.def("started", &engine::Runtime::started);
  m.def("in_bad_fork", &engine::Runtime::in_bad_fork);
  m.def("counters", &counters);
  m.def("reset_counters", [] {
    engine::reset_counters();
    aten::reset_fallback_counts();
  });
  m.def("fallback_ops", &aten::fallback_counts);
}

}  // namespace torch_tpu::bindings
