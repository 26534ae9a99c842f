// Operators that have no lowering run on the CPU: counted, and said once.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace torch_tpu::aten {

/// Operators that fell back since the last reset, with how often.
std::map<std::string, int64_t> fallback_counts();
void reset_fallback_counts();

}  // namespace torch_tpu::aten
