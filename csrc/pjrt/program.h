// The C form of a program to compile; used by Client and Topology.
#pragma once

#include <pjrt_c_api.h>

#include <string_view>

namespace torch_tpu::pjrt {

/// Points into `code`.
inline PJRT_Program mlir_program(std::string_view code) {
  constexpr std::string_view format = "mlir";
  PJRT_Program program{};
  program.struct_size = PJRT_Program_STRUCT_SIZE;
  // In the C struct because it is an output elsewhere; a compiler only reads it.
  program.code = const_cast<char*>(code.data());
  program.code_size = code.size();
  program.format = format.data();
  program.format_size = format.size();
  return program;
}

}  // namespace torch_tpu::pjrt
