// Element types, shapes and tensor types of StableHLO programs.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torch_tpu::stablehlo {

enum class DType : uint8_t {
  Pred,
  S8,
  S16,
  S32,
  S64,
  U8,
  U16,
  U32,
  U64,
  F8E4M3FN,
  F8E5M2,
  F8E4M3FNUZ,
  F8E5M2FNUZ,
  F8E8M0FNU,
  F16,
  BF16,
  F32,
  F64,
  C64,
  C128,
};

using Dims = std::vector<int64_t>;

/// The name in program text, such as `f32`, `i1`, `ui8`, `complex<f32>`.
std::string_view name(DType dtype);
/// Bytes of one element in memory (1 for Pred).
int64_t byte_size(DType dtype);

bool is_complex(DType dtype);
/// Real floating types, f8 included.
bool is_float(DType dtype);
bool is_signed_int(DType dtype);
bool is_unsigned_int(DType dtype);
/// Signed or unsigned integers; Pred is not one.
bool is_int(DType dtype);
/// F64 for C128, F32 for C64, the dtype itself otherwise.
DType real_dtype(DType dtype);
/// C128 for F64, C64 for every other real dtype; complex dtypes are returned as they are.
DType complex_dtype(DType dtype);

struct Type {
  DType dtype = DType::F32;
  Dims dims;

  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t numel() const;
  bool operator==(const Type&) const = default;
};

/// As in program text: `tensor<2x3xf32>`.
std::string to_string(const Type& type);
int64_t numel(const Dims& dims);

}  // namespace torch_tpu::stablehlo
