#include "engine/config.h"

#include <cstdlib>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace torch_tpu::engine {
namespace {

std::string text(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

[[noreturn]] void refuse(const char* name, const std::string& value, std::string_view expected) {
  throw std::invalid_argument(std::string(name) + "=" + value + ": expected " +
                              std::string(expected));
}

bool flag(const char* name, bool otherwise) {
  const std::string value = text(name);
  if (value.empty()) return otherwise;
  if (value == "1" || value == "true" || value == "on") return true;
  if (value == "0" || value == "false" || value == "off") return false;
  refuse(name, value, "0 or 1");
}

int64_t number(const char* name, int64_t otherwise, int64_t least) {
  const std::string value = text(name);
  if (value.empty()) return otherwise;
  char* end = nullptr;
  const long long parsed = std::strtoll(value.c_str(), &end, 10);
  if (*end != '\0' || parsed < least) {
    refuse(name, value, "an integer of at least " + std::to_string(least));
  }
  return parsed;
}

FallbackMode fallback_mode() {
  const std::string value = text("TORCH_TPU_CPU_FALLBACK");
  if (value.empty() || value == "warn") return FallbackMode::Warn;
  if (value == "error") return FallbackMode::Error;
  if (value == "silent") return FallbackMode::Silent;
  refuse("TORCH_TPU_CPU_FALLBACK", value, "error, warn or silent");
}

void read_log(Config& c) {
  std::istringstream names(text("TORCH_TPU_LOG"));
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "compiles") {
      c.log_compiles = true;
    } else if (name == "programs") {
      c.log_programs = true;
    } else if (!name.empty()) {
      refuse("TORCH_TPU_LOG", text("TORCH_TPU_LOG"), "a list of compiles, programs");
    }
  }
}

std::string default_cache_dir() {
  const std::string xdg = text("XDG_CACHE_HOME");
  if (!xdg.empty()) return xdg + "/torch_tpu";
  const std::string home = text("HOME");
  return home.empty() ? "" : home + "/.cache/torch_tpu";
}

Config read() {
  Config c;
  c.plugin_path = text("TORCH_TPU_PJRT_PLUGIN");
  c.cpu_devices = static_cast<int>(number("TORCH_TPU_CPU_DEVICES", 1, 1));
  c.launch_blocking = flag("TORCH_TPU_LAUNCH_BLOCKING", false);
  c.defer_and_fuse = flag("TORCH_TPU_DEFER_AND_FUSE", false);
  c.verbose = flag("TORCH_TPU_VERBOSE", false);
  read_log(c);
  c.dump_to = text("TORCH_TPU_DUMP_TO");
  c.fallback = fallback_mode();
  c.disk_cache = flag("TORCH_TPU_CACHE", true);
  c.cache_dir = text("TORCH_TPU_CACHE_DIR");
  if (c.cache_dir.empty()) c.cache_dir = default_cache_dir();
  if (c.cache_dir.empty()) c.disk_cache = false;
  c.cache_bytes = number("TORCH_TPU_CACHE_SIZE_MB", 4096, 0) << 20;
  c.program_cache_bytes = number("TORCH_TPU_PROGRAM_CACHE_MB", 2048, 1) << 20;
  c.memory_limit = number("TORCH_TPU_MEMORY_LIMIT_MB", 0, 0) << 20;
  return c;
}

}  // namespace

const Config& config() {
  static const Config instance = read();
  return instance;
}

}  // namespace torch_tpu::engine
