#include "aten/fallback.h"

#include <ATen/native/CPUFallback.h>
#include <torch/library.h>

#include <mutex>
#include <set>

#include "engine/config.h"
#include "engine/runtime.h"

namespace torch_tpu::aten {
namespace {

struct Fallbacks {
  std::mutex mutex;
  std::map<std::string, int64_t> counts;
  std::set<std::string> warned;
};

Fallbacks& fallbacks() {
  static auto* instance = new Fallbacks;
  return *instance;
}

/// Counts the operator; true the first time in this process.
bool note(const std::string& name) {
  Fallbacks& f = fallbacks();
  std::lock_guard lock(f.mutex);
  ++f.counts[name];
  ++engine::counters().cpu_fallbacks;
  return f.warned.insert(name).second;
}

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::string name = toString(op.operator_name());
  const engine::FallbackMode mode = engine::config().fallback;
  TORCH_CHECK_NOT_IMPLEMENTED(mode != engine::FallbackMode::Error,
                              "The tpu device does not implement the operator ", name,
                              ", and TORCH_TPU_CPU_FALLBACK=error forbids running it on the CPU. "
                              "Set TORCH_TPU_CPU_FALLBACK=warn to "
                              "let it run there, which copies its tensors to the host and back.");
  if (note(name) && mode == engine::FallbackMode::Warn) {
    TORCH_WARN(
        "The tpu device does not implement the operator ", name,
        ": it runs on the CPU, which copies its tensors to the host and back. This is said once "
        "per operator; torch.tpu.fallback_ops() counts them, and "
        "TORCH_TPU_CPU_FALLBACK=error|silent "
        "changes it.");
  }
  at::native::cpu_fallback(op, stack, /*error_on_views=*/true);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

}  // namespace

std::map<std::string, int64_t> fallback_counts() {
  Fallbacks& f = fallbacks();
  std::lock_guard lock(f.mutex);
  return f.counts;
}

void reset_fallback_counts() {
  Fallbacks& f = fallbacks();
  std::lock_guard lock(f.mutex);
  f.counts.clear();
}

}  // namespace torch_tpu::aten
