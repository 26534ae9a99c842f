// Calls through the PJRT function table with its versioning rules.
//
// The table and each argument struct begin with `struct_size`. The plugin may be older than our
// header (its table ends early: later functions do not exist) or newer (its structs have more
// fields than we know; we pass our own size and the plugin ignores the rest).
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>

#include "pjrt/error.h"

namespace torch_tpu::pjrt {

/// True if the plugin's function table is long enough to have `member` and it is not null.
/// Use: `has_function(api, &PJRT_Api::PJRT_Executable_Fingerprint)`.
template <class Function>
bool has_function(const PJRT_Api* api, Function* PJRT_Api::* member) {
  const auto* slot = reinterpret_cast<const std::byte*>(&(api->*member));
  const auto end =
      static_cast<size_t>(slot - reinterpret_cast<const std::byte*>(api)) + sizeof(Function*);
  return end <= api->struct_size && api->*member != nullptr;
}

/// Calls a function of the table; throws Error, with Code::Unimplemented if the plugin has none.
template <auto Member, class Args>
void call(const PJRT_Api* api, Args& args) {
  if (!has_function(api, Member)) [[unlikely]] {
    throw_missing_function();
  }
  check(api, (api->*Member)(&args));
}

/// Like `call`, but answers false if the plugin does not implement the function: a missing
/// feature is not a failure. Other errors are thrown.
template <auto Member, class Args>
bool call_if_implemented(const PJRT_Api* api, Args& args) {
  if (!has_function(api, Member)) {
    return false;
  }
  PJRT_Error* error = (api->*Member)(&args);
  if (error == nullptr) {
    return true;
  }
  Error taken = take_error(api, error);
  if (taken.code() == Code::Unimplemented) {
    return false;
  }
  throw taken;
}

/// Calls a function that destroys something. Destructors cannot throw, and a plugin that fails to
/// destroy an object leaves nothing to be done: the error is freed and dropped.
template <auto Member, class Args>
void call_destroy(const PJRT_Api* api, Args& args) noexcept {
  if (PJRT_Error* error = (api->*Member)(&args)) {
    PJRT_Error_Destroy_Args destroy{};
    destroy.struct_size = PJRT_Error_Destroy_Args_STRUCT_SIZE;
    destroy.error = error;
    api->PJRT_Error_Destroy(&destroy);
  }
}

}  // namespace torch_tpu::pjrt

/// Declares `name`, a zeroed argument struct of `type`, with the size that our header knows. (A
/// macro, because the header gives that size as a constant named after the type; it is not
/// `sizeof`, which counts the padding where a newer field may lie.)
#define TORCH_TPU_PJRT_ARGS(type, name) \
  type name{};                          \
  name.struct_size = type##_STRUCT_SIZE
