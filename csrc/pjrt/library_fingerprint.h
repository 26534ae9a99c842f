// Identity of a shared library's contents.
#pragma once

#include <string>

namespace torch_tpu::pjrt {

/// "build-id:<hex>" from the library's ELF note, or "hash:<hex>" of the whole file if it has none
/// (Bazel builds have none). Throws PluginError if the file cannot be read.
std::string library_fingerprint(const std::string& path);

}  // namespace torch_tpu::pjrt
