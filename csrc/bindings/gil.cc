#include "bindings/module.h"
#include "engine/runtime.h"

namespace torch_tpu::bindings {
namespace {

/// Null if this thread holds no GIL, as in threads of the autograd engine or of a plugin.
void* release_gil() {
  if (!Py_IsInitialized() || !PyGILState_Check()) return nullptr;
  return PyEval_SaveThread();
}

void take_gil(void* thread_state) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(thread_state));
}

}  // namespace

void install_wait_hooks() { engine::set_wait_hooks({&release_gil, &take_gil}); }

}  // namespace torch_tpu::bindings
