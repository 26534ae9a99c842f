#include "aten/dtype.h"

#include <c10/util/Exception.h>

#include <array>
#include <utility>

namespace torch_tpu::aten {

using c10::ScalarType;
using stablehlo::DType;

namespace {

constexpr std::array kDTypes{
    std::pair{ScalarType::Bool, DType::Pred},
    std::pair{ScalarType::Char, DType::S8},
    std::pair{ScalarType::Short, DType::S16},
    std::pair{ScalarType::Int, DType::S32},
    std::pair{ScalarType::Long, DType::S64},
    std::pair{ScalarType::Byte, DType::U8},
    std::pair{ScalarType::UInt16, DType::U16},
    std::pair{ScalarType::UInt32, DType::U32},
    std::pair{ScalarType::UInt64, DType::U64},
    std::pair{ScalarType::Half, DType::F16},
    std::pair{ScalarType::BFloat16, DType::BF16},
    std::pair{ScalarType::Float, DType::F32},
    std::pair{ScalarType::Double, DType::F64},
    std::pair{ScalarType::ComplexFloat, DType::C64},
    std::pair{ScalarType::ComplexDouble, DType::C128},
    std::pair{ScalarType::Float8_e4m3fn, DType::F8E4M3FN},
    std::pair{ScalarType::Float8_e5m2, DType::F8E5M2},
    std::pair{ScalarType::Float8_e4m3fnuz, DType::F8E4M3FNUZ},
    std::pair{ScalarType::Float8_e5m2fnuz, DType::F8E5M2FNUZ},
    std::pair{ScalarType::Float8_e8m0fnu, DType::F8E8M0FNU},
};

constexpr int kNone = -1;

constexpr std::array<int8_t, 256> make_table() {
  std::array<int8_t, 256> table{};
  table.fill(kNone);
  for (const auto& [torch_dtype, dtype] : kDTypes) {
    table[static_cast<uint8_t>(torch_dtype)] = static_cast<int8_t>(dtype);
  }
  return table;
}

constexpr std::array<int8_t, 256> kTable = make_table();

constexpr std::array<ScalarType, kDTypes.size()> make_inverse() {
  std::array<ScalarType, kDTypes.size()> table{};
  for (const auto& [torch_dtype, dtype] : kDTypes) table[static_cast<size_t>(dtype)] = torch_dtype;
  return table;
}

constexpr std::array<ScalarType, kDTypes.size()> kInverse = make_inverse();

}  // namespace

bool has_dtype(ScalarType dtype) { return kTable[static_cast<uint8_t>(dtype)] != kNone; }

DType to_hlo(ScalarType dtype) {
  TORCH_CHECK_TYPE(has_dtype(dtype), "The tpu device has no dtype ", c10::toString(dtype),
                   ". Convert the tensor to another dtype on the CPU first.");
  return static_cast<DType>(kTable[static_cast<uint8_t>(dtype)]);
}

ScalarType to_torch(DType dtype) { return kInverse[static_cast<size_t>(dtype)]; }

}  // namespace torch_tpu::aten
