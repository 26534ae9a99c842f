// The process's one client and its devices, started at first use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/device.h"
#include "pjrt/client.h"
#include "pjrt/compile_options.h"

namespace torch_tpu::engine {

struct Counters {
  std::atomic<int64_t> compiles{0};         // programs that XLA compiled
  std::atomic<int64_t> executions{0};       // programs started
  std::atomic<int64_t> cache_hits{0};       // calls served by a program in memory
  std::atomic<int64_t> disk_cache_hits{0};  // programs loaded from the disk cache
  std::atomic<int64_t> disk_cache_misses{0};
  std::atomic<int64_t> cpu_fallbacks{0};  // operators run on the CPU for want of a lowering
  std::atomic<int64_t> compile_nanoseconds{0};
};

Counters& counters();
void reset_counters();

/// What the Python package found: the plugin to use if the environment names none. `kind` is
/// "libtpu" or "cpu"; `problem` says why there is none, in the user's terms. May be set until the
/// runtime starts.
struct PluginChoice {
  std::string path;
  std::string kind;
  std::string problem;
};
void set_default_plugin(PluginChoice choice);
/// The plugin that the runtime uses or would use: environment, then the default.
PluginChoice plugin_choice();

class Runtime {
 public:
  /// Starts the plugin at the first call. Throws pjrt::PluginError or pjrt::Error; a later call
  /// tries again. Throws std::runtime_error in a process that was forked after the start.
  static Runtime& get();
  /// True after the first successful get().
  static bool started();
  /// True in a child of a process in which it was started.
  static bool in_bad_fork();

  pjrt::Client& client() { return *client_; }
  const pjrt::Plugin& plugin() const { return client_->plugin(); }
  int device_count() const { return static_cast<int>(devices_.size()); }
  Device& device(int index) { return *devices_[index]; }

  /// Serialized options of every compilation.
  const std::string& compile_options() const { return compile_options_; }

 private:
  Runtime();

  std::shared_ptr<pjrt::Client> client_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::string compile_options_;
};

/// Number of devices without starting the runtime for a CPU plugin; 0 if there is no plugin. Never
/// throws.
int device_count_hint() noexcept;

/// Waits of this library release whatever lock the embedding interpreter holds. `begin` runs before
/// a wait on the waiting thread and returns a token for `end`.
struct WaitHooks {
  void* (*begin)() = nullptr;
  void (*end)(void*) = nullptr;
};
void set_wait_hooks(WaitHooks hooks);

/// Scope of a wait.
class WaitScope {
 public:
  WaitScope();
  ~WaitScope();
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  void* token_ = nullptr;
};

}  // namespace torch_tpu::engine
