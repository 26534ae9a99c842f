// Programs as files, for other compilers and for readers.
#pragma once

#include <string>

namespace torch_tpu::engine {

/// With TORCH_TPU_DUMP_TO, writes the program's text to a file of that folder, named by the program
/// and a hash of the text, unless it is there. A folder that cannot be written is told once on
/// stderr, and is no error.
void dump_program(const std::string& text);

}  // namespace torch_tpu::engine
