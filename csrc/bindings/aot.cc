// Programs for devices that are not there: lowered from what was recorded on abstract tensors, and
// compiled for a topology.
#include <optional>
#include <variant>

#include "bindings/module.h"
#include "device/allocator.h"
#include "device/current.h"
#include "device/errors.h"
#include "distributed/abstract_group.h"
#include "engine/capture.h"
#include "pjrt/compile_options.h"
#include "pjrt/topology.h"

namespace torch_tpu::bindings {
namespace {

using engine::Operand;
using engine::Storage;

/// Within enter() and exit(), tensors made on the device have no memory, and operators are
/// recorded.
class AbstractDevice {
 public:
  AbstractDevice() : capture_(device::engine_device(0), /*adopts=*/false) {}

  void enter() { scope_.emplace(capture_); }
  void exit() { scope_.reset(); }
  void forget() { capture_.forget(); }

  /// The text, and the position in `inputs` of each operand, or -1.
  std::pair<py::bytes, py::list> lower(const std::vector<at::Tensor>& inputs,
                                       const std::vector<at::Tensor>& outputs,
                                       const std::string& name) {
    const std::vector<Storage*> given = storages_of(inputs);
    const engine::Capture::Lowered lowered = device::translated(
        name.c_str(), [&] { return capture_.lower(given, storages_of(outputs), name); });
    py::list operands;
    for (const Operand& operand : lowered.program->operands) {
      operands.append(operand.kind == Operand::Kind::Slot ? lowered.input_of_slot[operand.slot]
                                                          : -1);
    }
    return {py::bytes(lowered.program->text), operands};
  }

 private:
  static std::vector<Storage*> storages_of(const std::vector<at::Tensor>& tensors) {
    std::vector<Storage*> storages;
    for (const at::Tensor& tensor : tensors) storages.push_back(&device::storage_of(tensor));
    return storages;
  }

  engine::Capture capture_;
  std::optional<engine::Capture::Scope> scope_;
};

py::dict describe(const pjrt::CompiledMemoryStats& stats) {
  py::dict d;
  d["generated_code"] = stats.generated_code;
  d["arguments"] = stats.arguments;
  d["outputs"] = stats.outputs;
  d["alias"] = stats.alias;
  d["temporaries"] = stats.temporaries;
  d["peak"] = stats.peak;
  return d;
}

/// The plugin's topology of this name: "device_kind", "num_devices", "memory_bytes" (None if the
/// plugin does not tell).
py::dict describe(const pjrt::Topology& topology) {
  py::dict d;
  const auto devices = topology.devices();
  d["num_devices"] = devices.size();
  d["device_kind"] = devices.empty() ? "" : devices[0].kind();
  d["memory_bytes"] = py::none();
  const pjrt::Attributes attributes = topology.attributes();
  const auto limit = attributes.find("device_memory_bytes_limit");
  if (limit != attributes.end() && std::holds_alternative<int64_t>(limit->second)) {
    d["memory_bytes"] = std::get<int64_t>(limit->second);
  }
  return d;
}

/// As the runtime compiles (engine/runtime.cc).
std::string options_for(int num_replicas, int effort) {
  pjrt::CompileOptions options;
  options.num_replicas = num_replicas;
  options.portable = num_replicas == 1;
  options.optimization_level = effort;
  options.overrides["xla_allow_excess_precision"] = false;
  return options.serialize();
}

/// A dict: "topology" unless there is none of this name, "error" (code and message) if that or the
/// program is refused, else what the compiler made of it, with this effort (0 to 3; -1: its own
/// choice): "costs", "memory", "executable", and "optimized" (see pjrt::OptimizedProgram), each
/// unless the plugin has none. Without a text, the topology only.
py::dict compile_for(const std::string& plugin, const std::string& topology_name,
                     const std::string& text, int num_replicas, int effort) {
  py::dict out;
  try {
    std::optional<pjrt::Topology> topology;
    {
      const py::gil_scoped_release no_gil;
      topology.emplace(pjrt::Topology::create(pjrt::Plugin::load(plugin), topology_name));
    }
    out["topology"] = describe(*topology);
    if (text.empty()) return out;
    const std::string options = options_for(num_replicas, effort);
    std::optional<std::map<std::string, double>> costs;
    std::optional<pjrt::CompiledMemoryStats> memory;
    std::optional<pjrt::OptimizedProgram> optimized;
    std::string serialized;
    {
      const py::gil_scoped_release no_gil;
      const pjrt::Executable executable = topology->compile(text, options);
      costs = executable.cost_analysis();
      memory = executable.memory_stats();
      optimized = executable.optimized_program();
      serialized = executable.serialize();
    }
    if (costs) out["costs"] = *costs;
    if (memory) out["memory"] = describe(*memory);
    if (optimized) {
      out["optimized"] = py::make_tuple(optimized->format, py::bytes(optimized->code));
    }
    out["executable"] = py::bytes(serialized);
  } catch (const pjrt::Error& error) {
    out["error"] = py::make_tuple(pjrt::to_string(error.code()), error.details());
  }
  return out;
}

/// The plugin's compiler for one topology, for many programs.
class TopologyCompiler {
 public:
  TopologyCompiler(const std::string& plugin, const std::string& topology)
      : topology_(pjrt::Topology::create(pjrt::Plugin::load(plugin), topology)) {}

  /// None if the program compiles, else (code, message).
  std::optional<std::pair<std::string, std::string>> refusal(const std::string& text) const {
    try {
      topology_.compile(text, options_for(/*num_replicas=*/1, /*effort=*/-1));
    } catch (const pjrt::Error& error) {
      return std::pair(pjrt::to_string(error.code()), error.details());
    }
    return std::nullopt;
  }

 private:
  pjrt::Topology topology_;
};

}  // namespace

void bind_aot(py::module_& m) {
  py::class_<AbstractDevice>(m, "AbstractDevice")
      .def(py::init<>())
      .def("enter", &AbstractDevice::enter)
      .def("exit", &AbstractDevice::exit)
      .def("forget", &AbstractDevice::forget)
      .def("lower", torch::wrap_pybind_function(&AbstractDevice::lower));
  m.def("compile_for_topology", &compile_for);
  m.def("abstract_group", &distributed::make_abstract_group);
  // (kind, group, group_size, bytes) of each collective since the last call.
  m.def("take_collectives", [] {
    std::vector<std::tuple<std::string, std::string, int64_t, int64_t>> all;
    for (const distributed::Collective& c : distributed::take_collectives()) {
      all.emplace_back(c.kind, c.group, c.group_size, c.bytes);
    }
    return all;
  });
  py::class_<TopologyCompiler>(m, "TopologyCompiler")
      .def(py::init<const std::string&, const std::string&>(),
           py::call_guard<py::gil_scoped_release>())
      .def("refusal", &TopologyCompiler::refusal, py::call_guard<py::gil_scoped_release>());
}

}  // namespace torch_tpu::bindings
