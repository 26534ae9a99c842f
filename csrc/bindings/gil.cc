#include <string>
#include <string_view>

#include "bindings/module.h"
#include "engine/compile_log.h"
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

/// The folders of torch and of this package, with a slash at the end.
std::string& torch_folder() {
  static auto* folder = new std::string;
  return *folder;
}
std::string& own_folder() {
  static auto* folder = new std::string;
  return *folder;
}

/// "file:line" of the innermost frame that is the user's; "" if there is none.
std::string line_of(py::object frame) {
  while (!frame.is_none()) {
    const auto file = frame.attr("f_code").attr("co_filename").cast<std::string>();
    if (!file.starts_with(torch_folder()) && !file.starts_with(own_folder())) {
      return file + ":" + std::to_string(frame.attr("f_lineno").cast<int>());
    }
    frame = frame.attr("f_back");
  }
  return "";
}

bool is_ending() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing();
#else
  return _Py_IsFinalizing();
#endif
}

/// Programs are compiled with the GIL released, and in threads without any frame: those of the
/// autograd engine work for a thread that waits in backward(), which is nearly always the main
/// thread.
std::string python_line() {
  if (!Py_IsInitialized() || is_ending()) return "";
  const py::gil_scoped_acquire gil;
  const py::error_scope pending;
  try {
    if (PyFrameObject* frame = PyEval_GetFrame()) {
      return line_of(py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(frame)));
    }
    const py::object main = py::module_::import("threading").attr("main_thread")().attr("ident");
    const py::dict frames = py::module_::import("sys").attr("_current_frames")();
    if (!frames.contains(main)) return "";
    const std::string line = line_of(frames[main]);
    return line.empty() ? "" : line + " (from another thread, such as that of backward())";
  } catch (const py::error_already_set&) {
    return "";  // a report is not worth an error
  }
}

std::string folder_of(const std::string& file) { return file.substr(0, file.rfind('/') + 1); }

}  // namespace

void install_interpreter_hooks(const py::module_& m) {
  torch_folder() = folder_of(py::module_::import("torch").attr("__file__").cast<std::string>());
  own_folder() = folder_of(m.attr("__file__").cast<std::string>());
  engine::set_wait_hooks({&release_gil, &take_gil});
  engine::set_caller_hook(&python_line);
}

}  // namespace torch_tpu::bindings
