#include "pjrt/dtype.h"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>

namespace torch_tpu::pjrt {
namespace {

struct TypeInfo {
  int bits;
  const char* name;
};

TypeInfo info(PJRT_Buffer_Type type) {
  switch (type) {
    case PJRT_Buffer_Type_PRED:
      return {8, "i1"};
    case PJRT_Buffer_Type_S2:
      return {2, "i2"};
    case PJRT_Buffer_Type_S4:
      return {4, "i4"};
    case PJRT_Buffer_Type_S8:
      return {8, "i8"};
    case PJRT_Buffer_Type_S16:
      return {16, "i16"};
    case PJRT_Buffer_Type_S32:
      return {32, "i32"};
    case PJRT_Buffer_Type_S64:
      return {64, "i64"};
    case PJRT_Buffer_Type_U2:
      return {2, "ui2"};
    case PJRT_Buffer_Type_U4:
      return {4, "ui4"};
    case PJRT_Buffer_Type_U8:
      return {8, "ui8"};
    case PJRT_Buffer_Type_U16:
      return {16, "ui16"};
    case PJRT_Buffer_Type_U32:
      return {32, "ui32"};
    case PJRT_Buffer_Type_U64:
      return {64, "ui64"};
    case PJRT_Buffer_Type_F16:
      return {16, "f16"};
    case PJRT_Buffer_Type_F32:
      return {32, "f32"};
    case PJRT_Buffer_Type_F64:
      return {64, "f64"};
    case PJRT_Buffer_Type_BF16:
      return {16, "bf16"};
    case PJRT_Buffer_Type_C64:
      return {64, "complex<f32>"};
    case PJRT_Buffer_Type_C128:
      return {128, "complex<f64>"};
    case PJRT_Buffer_Type_F8E5M2:
      return {8, "f8E5M2"};
    case PJRT_Buffer_Type_F8E4M3FN:
      return {8, "f8E4M3FN"};
    case PJRT_Buffer_Type_F8E4M3B11FNUZ:
      return {8, "f8E4M3B11FNUZ"};
    case PJRT_Buffer_Type_F8E5M2FNUZ:
      return {8, "f8E5M2FNUZ"};
    case PJRT_Buffer_Type_F8E4M3FNUZ:
      return {8, "f8E4M3FNUZ"};
    case PJRT_Buffer_Type_F8E4M3:
      return {8, "f8E4M3"};
    case PJRT_Buffer_Type_F8E3M4:
      return {8, "f8E3M4"};
    case PJRT_Buffer_Type_F8E8M0FNU:
      return {8, "f8E8M0FNU"};
    case PJRT_Buffer_Type_F4E2M1FN:
      return {4, "f4E2M1FN"};
    case PJRT_Buffer_Type_TOKEN:
      return {0, "token"};
    case PJRT_Buffer_Type_INVALID:
      break;
  }
  throw std::invalid_argument("Unknown PJRT element type " +
                              std::to_string(static_cast<int>(type)) + ".");
}

}  // namespace

int bits_of(PJRT_Buffer_Type type) { return info(type).bits; }

size_t host_byte_size(PJRT_Buffer_Type type, std::span<const int64_t> dims) {
  const int bits = bits_of(type);
  auto size = static_cast<size_t>(bits == 0 ? 0 : std::max(bits, 8) / 8);
  for (int64_t dim : dims) {
    if (dim < 0 ||
        (dim != 0 && size > std::numeric_limits<size_t>::max() / static_cast<size_t>(dim))) {
      throw std::invalid_argument("The size of a PJRT buffer is negative or too large.");
    }
    size *= static_cast<size_t>(dim);
  }
  return size;
}

const char* to_string(PJRT_Buffer_Type type) { return info(type).name; }

}  // namespace torch_tpu::pjrt
