// Graphs of torch.compile.
#include "aten/graph.h"

#include <torch/csrc/autograd/python_variable.h>

#include <optional>
#include <utility>

#include "bindings/module.h"
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

PyObject* to_python(c10::IValue value) {
  if (value.isTensor()) return THPVariable_Wrap(std::move(value).toTensor());
  if (value.isBool()) return PyBool_FromLong(value.toBool());
  if (value.isInt()) return PyLong_FromLongLong(value.toInt());
  if (value.isDouble()) return PyFloat_FromDouble(value.toDouble());
  return py::none().release().ptr();
}

py::list to_list(std::vector<c10::IValue> values) {
  py::list out(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    PyList_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), to_python(std::move(values[i])));
  }
  return out;
}

/// A capture in progress. Python enters it, runs the graph on its placeholders, and finishes it.
class Session {
 public:
  Session(std::shared_ptr<Graph> graph, const py::list& args, bool adopts)
      : graph_(std::move(graph)),
        call_(graph_->call(values_of(args))),
        capture_(*graph_, call_, adopts) {}

  py::list placeholders() const {
    py::list out;
    for (const at::Tensor& tensor : capture_.placeholders()) {
      out.append(tensor.defined() ? py::cast(tensor) : py::none());
    }
    return out;
  }
  void enter() { scope_.emplace(capture_); }
  void exit() { scope_.reset(); }
  std::string problem() { return capture_.capture().problem(); }
  void finish(const py::list& results) {
    device::translated(graph_->name().c_str(), [&] { capture_.finish(values_of(results)); });
  }

 private:
  std::shared_ptr<Graph> graph_;
  GraphCall call_;
  GraphCapture capture_;
  std::optional<GraphCapture::Scope> scope_;
};

/// The results, or None if these arguments need a capture.
std::optional<py::list> run(Graph& graph, const py::list& args) {
  return device::translated(graph.name().c_str(), [&]() -> std::optional<py::list> {
    const GraphCall call = graph.call(values_of(args));
    const std::shared_ptr<const GraphProgram> program = graph.find(call);
    if (!program) return std::nullopt;
    return to_list(Graph::run(*program, call, graph.device()));
  });
}

}  // namespace

void bind_graph(py::module_& m) {
  py::class_<Graph, std::shared_ptr<Graph>>(m, "Graph")
      .def(py::init<std::string, std::vector<bool>, c10::DeviceIndex>())
      .def("run", torch::wrap_pybind_function(run));
  py::class_<Session>(m, "Capture")
      .def(py::init<std::shared_ptr<Graph>, const py::list&, bool>(), py::arg("graph"),
           py::arg("args"), py::arg("adopts") = false)
      .def("placeholders", &Session::placeholders)
      .def("enter", &Session::enter)
      .def("exit", &Session::exit)
      .def("problem", &Session::problem)
      .def("finish", torch::wrap_pybind_function([](Session& session, const py::list& results) {
             session.finish(results);
           }));
}

}  // namespace torch_tpu::bindings
