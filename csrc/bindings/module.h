// Parts of the extension module torch_tpu._C.
#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace torch_tpu::bindings {

void bind_runtime(py::module_& m);
void bind_device(py::module_& m);
void bind_compile(py::module_& m);
void bind_memory(py::module_& m);
void bind_operators(py::module_& m);
void bind_graph(py::module_& m);
void bind_aot(py::module_& m);

/// Makes the library's waits release the GIL, and tells it lines of Python programs.
void install_interpreter_hooks(const py::module_& m);

}  // namespace torch_tpu::bindings
