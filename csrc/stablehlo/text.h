// Internal: pieces of program text, appended to one string (no streams: a program is built on the
// path of the first run of every operator).
#pragma once

#include <cstdint>
#include <string>

#include "stablehlo/types.h"

namespace torch_tpu::stablehlo {

void append_int(std::string& out, int64_t value);
void append_type(std::string& out, const Type& type);
/// `1, 2, 3`.
void append_list(std::string& out, const Dims& values);
/// `[1, 2, 3]`.
std::string to_string(const Dims& values);

}  // namespace torch_tpu::stablehlo
