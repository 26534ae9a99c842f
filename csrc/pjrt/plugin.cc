#include "pjrt/plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <filesystem>
#include <system_error>
#include <unordered_map>
#include <utility>

#include "pjrt/library_fingerprint.h"
#include "pjrt/named_value.h"

namespace torch_tpu::pjrt {
namespace {

constexpr const char* what_to_do =
    " Give the path of a PJRT plugin's shared library: libtpu.so, or an XLA CPU plugin.";

std::string resolve(const std::string& path) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  if (path.empty() || error) {
    throw PluginError("The PJRT plugin '" + path + "' does not exist." + what_to_do);
  }
  if (!std::filesystem::is_regular_file(resolved, error)) {
    throw PluginError("The PJRT plugin '" + path + "' is not a file." + what_to_do);
  }
  return resolved.string();
}

const PJRT_Api* open_library(const std::string& path) {
  // RTLD_LOCAL: each plugin brings its own XLA, LLVM and protobuf, which must not see each other.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw PluginError("The PJRT plugin '" + path + "' cannot be loaded: " + ::dlerror() + "." +
                      what_to_do);
  }
  using GetPjrtApi = const PJRT_Api* (*)();
  const auto get_api = reinterpret_cast<GetPjrtApi>(::dlsym(library, "GetPjrtApi"));
  if (get_api == nullptr) {
    ::dlclose(library);
    throw PluginError("'" + path + "' is a shared library but not a PJRT plugin: it has no " +
                      "function GetPjrtApi." + what_to_do);
  }
  const PJRT_Api* api = get_api();
  if (api == nullptr) {
    throw PluginError("The PJRT plugin '" + path + "' gives no API (GetPjrtApi returned null).");
  }
  return api;
}

void check_version(const std::string& path, const PJRT_Api* api) {
  const PJRT_Api_Version& version = api->pjrt_api_version;
  const std::string text = "The PJRT plugin '" + path + "' speaks PJRT C API " +
                           std::to_string(version.major_version) + "." +
                           std::to_string(version.minor_version) + ", this build speaks " +
                           std::to_string(PJRT_API_MAJOR) + "." + std::to_string(PJRT_API_MINOR);
  if (version.major_version != PJRT_API_MAJOR) {
    throw PluginError(text + ": different major versions do not understand each other. Use a " +
                      "plugin with major version " + std::to_string(PJRT_API_MAJOR) + ".");
  }
  // Everything up to here is called with no further test of its presence.
  if (!has_function(api, &PJRT_Api::PJRT_Executable_OutputDimensions)) {
    throw PluginError(text + ": the plugin is too old, it lacks functions that are needed. Use a " +
                      "newer plugin.");
  }
}

void initialize(const PJRT_Api* api) {
  TORCH_TPU_PJRT_ARGS(PJRT_Plugin_Initialize_Args, args);
  call<&PJRT_Api::PJRT_Plugin_Initialize>(api, args);
}

std::map<std::string, std::string> read_attributes(const PJRT_Api* api) {
  TORCH_TPU_PJRT_ARGS(PJRT_Plugin_Attributes_Args, args);
  std::map<std::string, std::string> result;
  if (call_if_implemented<&PJRT_Api::PJRT_Plugin_Attributes>(api, args)) {
    for (const auto& [name, value] : to_attributes(args.attributes, args.num_attributes)) {
      result.emplace(name, to_string(value));
    }
  }
  return result;
}

struct Registry {
  std::mutex mutex;
  std::unordered_map<std::string, std::shared_ptr<const Plugin>> plugins;
};

Registry& registry() {
  // Never destroyed: a plugin must outlive every object made with it, also those in statics.
  static Registry& instance = *new Registry;
  return instance;
}

}  // namespace

std::shared_ptr<const Plugin> Plugin::load(const std::string& path) {
  const std::string resolved = resolve(path);
  Registry& known = registry();
  // Held during the load: two threads must not initialize one plugin twice.
  const std::lock_guard lock(known.mutex);
  if (const auto found = known.plugins.find(resolved); found != known.plugins.end()) {
    return found->second;
  }
  std::shared_ptr<const Plugin> plugin = open(resolved);
  known.plugins.emplace(resolved, plugin);
  return plugin;
}

std::shared_ptr<const Plugin> Plugin::open(const std::string& path) {
  const PJRT_Api* api = open_library(path);
  check_version(path, api);
  initialize(api);
  return std::shared_ptr<const Plugin>(new Plugin(path, api, read_attributes(api)));
}

Plugin::Plugin(std::string path, const PJRT_Api* api, std::map<std::string, std::string> attributes)
    : path_(std::move(path)), api_(api), attributes_(std::move(attributes)) {}

ApiVersion Plugin::api_version() const {
  return {api_->pjrt_api_version.major_version, api_->pjrt_api_version.minor_version};
}

const std::string& Plugin::fingerprint() const {
  std::call_once(fingerprint_once_, [this] { fingerprint_ = library_fingerprint(path_); });
  return fingerprint_;
}

const PJRT_Extension_Base* Plugin::find_extension_base(PJRT_Extension_Type type) const {
  const PJRT_Extension_Base* extension = api_->extension_start;
  // Bytes are compared: a plugin may have extensions whose numbers are not in our header's enum.
  while (extension != nullptr && std::memcmp(&extension->type, &type, sizeof type) != 0) {
    extension = extension->next;
  }
  return extension;
}

}  // namespace torch_tpu::pjrt
