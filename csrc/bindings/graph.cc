// Graphs of torch.compile.
#include "aten/graph.h"

#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <unordered_map>
#include <utility>

#include "bindings/module.h"
#include "device/current.h"
#include "device/errors.h"

namespace torch_tpu::bindings {
namespace {

using aten::Graph;
using aten::GraphCall;
using aten::GraphCapture;
using aten::GraphProgram;

std::vector<c10::IValue> values_of(const py::list& args) {
  std::vector<c10::IValue> values;
  values.reserve(args.size());
  for (const py::handle arg : args) {
    if (THPVariable_Check(arg.ptr())) {
      values.emplace_back(THPVariable_Unpack(arg.ptr()));
    } else if (arg.is_none()) {
      values.emplace_back();
    } else if (PyBool_Check(arg.ptr())) {
      values.emplace_back(arg.cast<bool>());
    } else if (PyFloat_Check(arg.ptr())) {
      values.emplace_back(arg.cast<double>());
    } else if (PyLong_Check(arg.ptr())) {
      values.emplace_back(arg.cast<int64_t>());
    } else {
      throw py::type_error("a compiled graph takes tensors, numbers and None, not " +
                           py::repr(py::type::of(arg)).cast<std::string>());
    }
  }
  return values;
}

py::list to_list(std::vector<at::Tensor> tensors) {
  py::list out(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    PyList_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), THPVariable_Wrap(std::move(tensors[i])));
  }
  return out;
}

/// A graph, and how Python sees the results of its programs: a list with None where a tensor goes
/// and whatever else the graph gives, or None if it gives tensors only. Guarded by the GIL.
struct PyGraph {
  PyGraph(std::string name, std::vector<bool> exact, c10::DeviceIndex device)
      : graph(std::move(name), std::move(exact), device) {}
  Graph graph;
  std::unordered_map<const GraphProgram*, py::object> layouts;
};

/// A capture in progress. Python enters it, runs the graph on its placeholders, and finishes it.
class Session {
 public:
  Session(std::shared_ptr<PyGraph> graph, const py::list& args)
      : graph_(std::move(graph)),
        call_(graph_->graph.call(values_of(args))),
        capture_(graph_->graph, call_) {}

  py::list placeholders() const {
    py::list out;
    for (const at::Tensor& tensor : capture_.placeholders()) {
      out.append(tensor.defined() ? py::cast(tensor) : py::none());
    }
    return out;
  }
  void enter() { instead_.emplace(capture_.capture().device()); }
  void exit() { instead_.reset(); }
  std::string problem() { return capture_.capture().problem(); }
  void finish(std::vector<at::Tensor> results, py::object layout) {
    device::translated(graph_->graph.name().c_str(), [&] {
      const auto program = capture_.finish(std::move(results));
      graph_->layouts[program.get()] = std::move(layout);
    });
  }

 private:
  std::shared_ptr<PyGraph> graph_;
  GraphCall call_;
  GraphCapture capture_;
  std::optional<device::DeviceInstead> instead_;
};

/// The tensors that the graph gives and their layout, or None if these arguments need a capture.
std::optional<std::pair<py::list, py::object>> run(PyGraph& self, const py::list& args) {
  Graph& graph = self.graph;
  using Results = std::optional<std::pair<py::list, py::object>>;
  return device::translated(graph.name().c_str(), [&]() -> Results {
    const GraphCall call = graph.call(values_of(args));
    const std::shared_ptr<const GraphProgram> program = graph.find(call);
    if (!program) return std::nullopt;
    py::list tensors = to_list(Graph::run(*program, call, graph.device()));
    return std::pair{std::move(tensors), self.layouts.at(program.get())};
  });
}

}  // namespace

void bind_graph(py::module_& m) {
  py::class_<PyGraph, std::shared_ptr<PyGraph>>(m, "Graph")
      .def(py::init<std::string, std::vector<bool>, c10::DeviceIndex>())
      .def("run", torch::wrap_pybind_function(run));
  py::class_<Session>(m, "Capture")
      .def(py::init<std::shared_ptr<PyGraph>, const py::list&>())
      .def("placeholders", &Session::placeholders)
      .def("enter", &Session::enter)
      .def("exit", &Session::exit)
      .def("problem", &Session::problem)
      .def("finish", torch::wrap_pybind_function(
                         [](Session& session, std::vector<at::Tensor> results, py::object layout) {
                           session.finish(std::move(results), std::move(layout));
                         }));
}

}  // namespace torch_tpu::bindings
