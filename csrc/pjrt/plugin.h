// A PJRT plugin: a shared library that exports GetPjrtApi().
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "pjrt/api_call.h"

namespace torch_tpu::pjrt {

struct ApiVersion {
  int major = 0;
  int minor = 0;
};

/// One loaded plugin. It stays loaded until the process ends (XLA's threads do not survive
/// dlclose), so a raw `const PJRT_Api*` is valid for ever. Immutable: safe from any thread.
class Plugin {
 public:
  /// Loads the library at `path` and initializes it; a second load of the same file gives the same
  /// object. Throws PluginError, or Error if its own initialization fails.
  /// Blocks (20-400 ms the first time): release the GIL before.
  static std::shared_ptr<const Plugin> load(const std::string& path);

  const PJRT_Api* api() const { return api_; }

  /// Absolute path, symbolic links resolved.
  const std::string& path() const { return path_; }

  /// The version of the API that the plugin was built with. It may be older or newer than ours.
  ApiVersion api_version() const;

  /// What the plugin says of itself, as text: `xla_version`, `stablehlo_current_version`
  /// ("1.13.3"), `stablehlo_minimum_version`, ...
  const std::map<std::string, std::string>& attributes() const { return attributes_; }

  /// The extension of the given type, or null. `T` is its struct, from the extension's own header.
  /// The caller checks `struct_size` before it uses a late field.
  template <class T>
  const T* find_extension(PJRT_Extension_Type type) const {
    return reinterpret_cast<const T*>(find_extension_base(type));
  }

  /// True if the plugin has a function: `plugin.has(&PJRT_Api::PJRT_Buffer_CopyRawToHost)`.
  template <class Function>
  bool has(Function* PJRT_Api::* member) const {
    return has_function(api_, member);
  }

  /// Identity of the library's contents, for the keys of disk caches: the linker's build id if the
  /// library has one, else a hash of the file. Computed once, at the first call (a hash of 260 MB
  /// takes 0.1 s from the page cache). Blocks: release the GIL before.
  const std::string& fingerprint() const;

 private:
  Plugin(std::string path, const PJRT_Api* api, std::map<std::string, std::string> attributes);

  static std::shared_ptr<const Plugin> open(const std::string& path);
  const PJRT_Extension_Base* find_extension_base(PJRT_Extension_Type type) const;

  std::string path_;
  const PJRT_Api* api_;
  std::map<std::string, std::string> attributes_;
  mutable std::once_flag fingerprint_once_;
  mutable std::string fingerprint_;
};

}  // namespace torch_tpu::pjrt
