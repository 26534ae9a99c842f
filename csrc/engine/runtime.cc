#include "engine/runtime.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>

#include "engine/config.h"
#include "engine/fork.h"

namespace torch_tpu::engine {
namespace {

std::atomic<Runtime*> instance{nullptr};
WaitHooks wait_hooks;

std::mutex& choice_mutex() {
  static std::mutex mutex;
  return mutex;
}

PluginChoice& default_choice() {
  static PluginChoice choice{"", "", "the torch_tpu package has not been imported"};
  return choice;
}

/// XLA logs to stderr from static initializers on. Users see it only when they ask.
void quiet_plugin_logs() {
  if (config().verbose) return;
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", /*overwrite=*/0);
  setenv("TPU_MIN_LOG_LEVEL", "3", 0);
}

/// Sends stderr to /dev/null for its lifetime: plugins print while they load, before any log level
/// applies.
class QuietStderr {
 public:
  QuietStderr() {
    if (config().verbose) return;
    saved_ = dup(STDERR_FILENO);
    const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (saved_ >= 0 && null >= 0) dup2(null, STDERR_FILENO);
    if (null >= 0) close(null);
  }
  ~QuietStderr() {
    if (saved_ < 0) return;
    dup2(saved_, STDERR_FILENO);
    close(saved_);
  }

 private:
  int saved_ = -1;
};

std::shared_ptr<pjrt::Client> start_client() {
  const PluginChoice choice = plugin_choice();
  if (choice.path.empty()) {
    throw pjrt::PluginError("No PJRT plugin for the tpu device: " + choice.problem);
  }
  quiet_plugin_logs();
  const QuietStderr quiet;
  auto plugin = pjrt::Plugin::load(choice.path);
  std::vector<pjrt::NamedValue> options;
  if (choice.kind != "libtpu") {
    options.push_back({"cpu_device_count", static_cast<int64_t>(config().cpu_devices)});
  }
  try {
    return pjrt::Client::create(plugin, options);
  } catch (const pjrt::Error&) {
    // A plugin of another kind may refuse the option. If it refuses everything, that error counts.
    if (options.empty()) throw;
    return pjrt::Client::create(plugin, {});
  }
}

std::string options_for(const pjrt::Client& client) {
  pjrt::CompileOptions options;
  options.portable = true;
  // bf16 must round at the same places whatever is fused.
  options.overrides["xla_allow_excess_precision"] = false;
  if (client.platform_name() == "cpu") {
    options.overrides["xla_cpu_enable_fast_math"] = false;
    options.overrides["xla_cpu_enable_fast_min_max"] = false;
  }
  return options.serialize();
}

}  // namespace

std::atomic<bool> bad_fork{false};

void throw_bad_fork() {
  throw std::runtime_error(
      "The tpu device cannot be used in a process forked after it was started: the runtime's "
      "threads "
      "do not exist there. Use the 'spawn' start method of multiprocessing (DataLoader: "
      "multiprocessing_context='spawn'), or keep tensors on the CPU in worker processes.");
}

Counters& counters() {
  static Counters* instance = new Counters;
  return *instance;
}

void reset_counters() {
  Counters& c = counters();
  for (auto* counter : {&c.compiles, &c.executions, &c.cache_hits, &c.disk_cache_hits,
                        &c.disk_cache_misses, &c.cpu_fallbacks, &c.compile_nanoseconds}) {
    counter->store(0);
  }
}

void set_default_plugin(PluginChoice choice) {
  std::lock_guard lock(choice_mutex());
  default_choice() = std::move(choice);
}

PluginChoice plugin_choice() {
  if (!config().plugin_path.empty()) {
    const std::string& path = config().plugin_path;
    const bool libtpu = path.find("libtpu", path.rfind('/') + 1) != std::string::npos;
    return {config().plugin_path, libtpu ? "libtpu" : "cpu", ""};
  }
  std::lock_guard lock(choice_mutex());
  return default_choice();
}

Runtime::Runtime() : client_(start_client()), compile_options_(options_for(*client_)) {
  int index = 0;
  const bool is_cpu = client_->platform_name() == "cpu";
  for (const pjrt::Device& device : client_->addressable_devices()) {
    if (is_cpu && index == config().cpu_devices)
      break;  // a plugin may not know the option that limits them
    devices_.push_back(std::make_unique<Device>(*client_, device, index++));
  }
}

Runtime& Runtime::get() {
  if (Runtime* runtime = instance.load(std::memory_order_acquire); runtime && !in_bad_fork()) {
    return *runtime;
  }
  refuse_bad_fork();
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (!instance.load()) {
    // Never destroyed: plugins do not survive their own destructors at exit, and work may be
    // pending.
    instance.store(new Runtime, std::memory_order_release);
    pthread_atfork(nullptr, nullptr, [] { bad_fork.store(true); });
  }
  return *instance.load();
}

bool Runtime::started() { return instance.load(std::memory_order_acquire) != nullptr; }

bool Runtime::in_bad_fork() { return bad_fork.load(std::memory_order_relaxed); }

int device_count_hint() noexcept {
  try {
    const PluginChoice choice = plugin_choice();
    if (choice.path.empty()) return 0;
    if (Runtime::started()) return Runtime::get().device_count();
    if (choice.kind == "cpu")
      return access(choice.path.c_str(), R_OK) == 0 ? config().cpu_devices : 0;
    return Runtime::get().device_count();
  } catch (...) {
    return 0;
  }
}

void set_wait_hooks(WaitHooks hooks) { wait_hooks = hooks; }

WaitScope::WaitScope() {
  if (wait_hooks.begin) token_ = wait_hooks.begin();
}

WaitScope::~WaitScope() {
  if (token_) wait_hooks.end(token_);
}

}  // namespace torch_tpu::engine
