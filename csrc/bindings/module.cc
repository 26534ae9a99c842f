#include "bindings/module.h"

#include "aten/native.h"

PYBIND11_MODULE(_C, m) {
  m.doc() = "The C++ side of torch_tpu.";
  torch_tpu::aten::register_kernels();
  torch_tpu::bindings::install_interpreter_hooks(m);
  torch_tpu::bindings::bind_runtime(m);
  torch_tpu::bindings::bind_device(m);
  torch_tpu::bindings::bind_compile(m);
  torch_tpu::bindings::bind_memory(m);
  torch_tpu::bindings::bind_operators(m);
  torch_tpu::bindings::bind_graph(m);
  torch_tpu::bindings::bind_aot(m);
}
