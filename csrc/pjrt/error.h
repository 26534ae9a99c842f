// Errors of the PJRT room.
//
// Everything that a plugin reports becomes an `Error`; everything that keeps a plugin from being
// loaded becomes a `PluginError`. Nothing in this room aborts the process.
#pragma once

#include <pjrt_c_api.h>

#include <stdexcept>
#include <string>
#include <string_view>

namespace torch_tpu::pjrt {

/// Mirrors `PJRT_Error_Code` (which mirrors the codes of absl::Status).
enum class Code {
  Ok = 0,
  Cancelled = 1,
  Unknown = 2,
  InvalidArgument = 3,
  DeadlineExceeded = 4,
  NotFound = 5,
  AlreadyExists = 6,
  PermissionDenied = 7,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  Aborted = 10,
  OutOfRange = 11,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
  DataLoss = 15,
  Unauthenticated = 16,
};

/// The code's name as absl prints it, e.g. "RESOURCE_EXHAUSTED".
const char* to_string(Code code);

/// A failure that the plugin reported. `what()` is the first line of its message; `details()` is
/// the whole message, which in XLA carries a stack of source lines.
class Error : public std::runtime_error {
 public:
  Error(Code code, std::string details);

  Code code() const { return code_; }
  const std::string& details() const { return details_; }

 private:
  Code code_;
  std::string details_;
};

/// The plugin could not be loaded or cannot be used with this build. The message says what was
/// asked for, what is wrong with it, and what to do.
class PluginError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads `error` into an `Error` and destroys it. `error` must not be null.
Error take_error(const PJRT_Api* api, PJRT_Error* error);

/// Throws `error` as an `Error`, and destroys it.
[[noreturn]] void throw_error(const PJRT_Api* api, PJRT_Error* error);

/// Throws if `error` is set. Inline, because it follows every call of the hot path.
inline void check(const PJRT_Api* api, PJRT_Error* error) {
  if (error != nullptr) [[unlikely]] {
    throw_error(api, error);
  }
}

/// Throws the Error that a function absent from the plugin stands for (Code::Unimplemented).
[[noreturn]] void throw_missing_function();

}  // namespace torch_tpu::pjrt
