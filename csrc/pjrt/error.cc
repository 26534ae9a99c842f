#include "pjrt/error.h"

#include <utility>

#include "pjrt/api_call.h"

namespace torch_tpu::pjrt {
namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Code code_of(const PJRT_Api* api, const PJRT_Error* error) {
  TORCH_TPU_PJRT_ARGS(PJRT_Error_GetCode_Args, args);
  args.error = error;
  if (PJRT_Error* nested = api->PJRT_Error_GetCode(&args)) {
    TORCH_TPU_PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
    destroy.error = nested;
    api->PJRT_Error_Destroy(&destroy);
    return Code::Unknown;
  }
  return static_cast<Code>(args.code);
}

}  // namespace

const char* to_string(Code code) {
  switch (code) {
    case Code::Ok:
      return "OK";
    case Code::Cancelled:
      return "CANCELLED";
    case Code::Unknown:
      return "UNKNOWN";
    case Code::InvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::DeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::NotFound:
      return "NOT_FOUND";
    case Code::AlreadyExists:
      return "ALREADY_EXISTS";
    case Code::PermissionDenied:
      return "PERMISSION_DENIED";
    case Code::ResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::FailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::Aborted:
      return "ABORTED";
    case Code::OutOfRange:
      return "OUT_OF_RANGE";
    case Code::Unimplemented:
      return "UNIMPLEMENTED";
    case Code::Internal:
      return "INTERNAL";
    case Code::Unavailable:
      return "UNAVAILABLE";
    case Code::DataLoss:
      return "DATA_LOSS";
    case Code::Unauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

Error::Error(Code code, std::string details)
    : std::runtime_error(first_line(details)), code_(code), details_(std::move(details)) {}

Error take_error(const PJRT_Api* api, PJRT_Error* error) {
  TORCH_TPU_PJRT_ARGS(PJRT_Error_Message_Args, message);
  message.error = error;
  api->PJRT_Error_Message(&message);
  Error result(code_of(api, error), std::string(message.message, message.message_size));
  TORCH_TPU_PJRT_ARGS(PJRT_Error_Destroy_Args, destroy);
  destroy.error = error;
  api->PJRT_Error_Destroy(&destroy);
  return result;
}

void throw_error(const PJRT_Api* api, PJRT_Error* error) { throw take_error(api, error); }

void throw_missing_function() {
  throw Error(Code::Unimplemented,
              "The PJRT plugin does not have this function: it was built with an older version of "
              "the PJRT C API.");
}

}  // namespace torch_tpu::pjrt
