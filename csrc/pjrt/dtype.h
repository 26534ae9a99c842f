// Element types.
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace torch_tpu::pjrt {

/// Bits of one element: 4 for S4, 8 for PRED, 128 for C128, 0 for TOKEN. Throws
/// std::invalid_argument for a type that this build does not know.
int bits_of(PJRT_Buffer_Type type);

/// Bytes of a dense host array as PJRT takes and gives it: elements below 8 bits take one byte
/// each, they are packed on the device only.
size_t host_byte_size(PJRT_Buffer_Type type, std::span<const int64_t> dims);

/// Lower-case name as in StableHLO, e.g. "f32", "bf16", "i1", "ui8".
const char* to_string(PJRT_Buffer_Type type);

}  // namespace torch_tpu::pjrt
