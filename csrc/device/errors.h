// Errors of the rooms below as exceptions that PyTorch raises in Python.
#pragma once

#include <utility>

namespace torch_tpu::device {

/// Rethrows the exception in flight as the torch error that fits: torch.OutOfMemoryError,
/// IndexError, RuntimeError... `what` names the operator or the action, as the user would.
[[noreturn]] void rethrow_as_torch_error(const char* what);

/// Runs f; whatever engine and PJRT throw becomes a torch error.
template <class F>
auto translated(const char* what, F&& f) -> decltype(std::forward<F>(f)()) {
  try {
    return std::forward<F>(f)();
  } catch (...) {
    rethrow_as_torch_error(what);
  }
}

}  // namespace torch_tpu::device
