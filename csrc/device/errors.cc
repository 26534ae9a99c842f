#include "device/errors.h"

#include <c10/util/Exception.h>

#include <new>
#include <stdexcept>
#include <string>

#include "engine/config.h"
#include "engine/device.h"
#include "pjrt/error.h"

namespace torch_tpu::device {
namespace {

template <class TorchError>
[[noreturn]] void raise(const char* what, const std::string& message) {
  const bool named = what != nullptr && *what != '\0';
  throw TorchError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                   named ? std::string(what) + ": " + message : message);
}

[[noreturn]] void raise_pjrt(const char* what, const pjrt::Error& error) {
  const std::string message = engine::config().verbose ? error.details() : error.what();
  switch (error.code()) {
    case pjrt::Code::ResourceExhausted:
      raise<c10::OutOfMemoryError>(what, message);
    case pjrt::Code::Unimplemented:
      raise<c10::NotImplementedError>(what, "the PJRT plugin does not implement this: " + message);
    default:
      raise<c10::Error>(what, message);
  }
}

}  // namespace

void rethrow_as_torch_error(const char* what) {
  try {
    throw;
  } catch (const c10::Error&) {
    throw;
  } catch (const engine::OutOfDeviceMemory& error) {
    raise<c10::OutOfMemoryError>(what, error.what());
  } catch (const engine::DeviceIndexError& error) {
    raise<c10::IndexError>(nullptr, error.what());  // names the operator that met it, not this one
  } catch (const pjrt::Error& error) {
    raise_pjrt(what, error);
  } catch (const pjrt::PluginError& error) {
    raise<c10::Error>(nullptr, error.what());
  } catch (const std::bad_alloc&) {
    raise<c10::OutOfMemoryError>(what, "the host is out of memory");
  } catch (const std::invalid_argument& error) {
    raise<c10::ValueError>(what, error.what());
  } catch (const std::runtime_error& error) {
    raise<c10::Error>(what, error.what());
  }
  // Anything else, such as an error raised in Python, is not ours to change.
}

}  // namespace torch_tpu::device
