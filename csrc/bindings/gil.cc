#include <string>
#include <string_view>

#include "bindings/module.h"
#include "engine/compile_log.h"
#include "engine/memory_history.h"
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

bool is_ours(const std::string& file) {
  return file.starts_with(torch_folder()) || file.starts_with(own_folder());
}

std::string file_of(const py::object& frame) {
  return frame.attr("f_code").attr("co_filename").cast<std::string>();
}

/// "file:line" of the innermost frame that is the user's; "" if there is none.
std::string line_of(py::object frame) {
  for (; !frame.is_none(); frame = frame.attr("f_back")) {
    const std::string file = file_of(frame);
    if (!is_ours(file)) return file + ":" + std::to_string(frame.attr("f_lineno").cast<int>());
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

/// What `read` makes of this thread's frame, or of the main thread's if this one has none: the
/// threads of the autograd engine work for one that waits in backward(), which is nearly always the
/// main one. `read` gets the frame and whether it is another thread's.
///
/// Takes the GIL, which calls of operators do not have.
template <class T>
T of_frame(T (*read)(py::object, bool)) {
  if (!Py_IsInitialized() || is_ending()) return {};
  const py::gil_scoped_acquire gil;
  const py::error_scope pending;
  try {
    if (PyFrameObject* frame = PyEval_GetFrame()) {
      return read(py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(frame)), false);
    }
    const py::object main = py::module_::import("threading").attr("main_thread")().attr("ident");
    const py::dict frames = py::module_::import("sys").attr("_current_frames")();
    return frames.contains(main) ? read(frames[main], true) : T{};
  } catch (const py::error_already_set&) {
    return {};  // a report is not worth an error
  }
}

std::string python_line() {
  return of_frame<std::string>([](py::object frame, bool is_other) {
    const std::string line = line_of(std::move(frame));
    return line.empty() || !is_other ? line
                                     : line + " (from another thread, such as that of backward())";
  });
}

engine::Frames python_frames() {
  return of_frame<engine::Frames>([](py::object frame, bool) -> engine::Frames {
    std::vector<engine::Frame> frames;
    for (; !frame.is_none(); frame = frame.attr("f_back")) {
      frames.push_back({file_of(frame), frame.attr("f_lineno").cast<int>(),
                        frame.attr("f_code").attr("co_name").cast<std::string>()});
    }
    return std::make_shared<const std::vector<engine::Frame>>(std::move(frames));
  });
}

std::string folder_of(const std::string& file) { return file.substr(0, file.rfind('/') + 1); }

}  // namespace

void install_interpreter_hooks(const py::module_& m) {
  torch_folder() = folder_of(py::module_::import("torch").attr("__file__").cast<std::string>());
  own_folder() = folder_of(m.attr("__file__").cast<std::string>());
  engine::set_wait_hooks({&release_gil, &take_gil});
  engine::set_caller_hook(&python_line);
  engine::set_frames_hook(&python_frames);
}

}  // namespace torch_tpu::bindings
