// Numbers of operators, as the error word reports them.
#pragma once

#include <cstdint>
#include <string>

namespace torch_tpu::engine {

/// The number (> 0) of an operator's name, such as "index_select".
int64_t site_of(const std::string& name);
std::string site_name(int64_t site);

}  // namespace torch_tpu::engine
