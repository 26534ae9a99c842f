#include "stablehlo/types.h"

#include <charconv>

#include "stablehlo/text.h"

namespace torch_tpu::stablehlo {

std::string_view name(DType dtype) {
  switch (dtype) {
    case DType::Pred:
      return "i1";
    case DType::S8:
      return "i8";
    case DType::S16:
      return "i16";
    case DType::S32:
      return "i32";
    case DType::S64:
      return "i64";
    case DType::U8:
      return "ui8";
    case DType::U16:
      return "ui16";
    case DType::U32:
      return "ui32";
    case DType::U64:
      return "ui64";
    case DType::F8E4M3FN:
      return "f8E4M3FN";
    case DType::F8E5M2:
      return "f8E5M2";
    case DType::F8E4M3FNUZ:
      return "f8E4M3FNUZ";
    case DType::F8E5M2FNUZ:
      return "f8E5M2FNUZ";
    case DType::F8E8M0FNU:
      return "f8E8M0FNU";
    case DType::F16:
      return "f16";
    case DType::BF16:
      return "bf16";
    case DType::F32:
      return "f32";
    case DType::F64:
      return "f64";
    case DType::C64:
      return "complex<f32>";
    case DType::C128:
      return "complex<f64>";
  }
  return "?";
}

int64_t byte_size(DType dtype) {
  switch (dtype) {
    case DType::Pred:
    case DType::S8:
    case DType::U8:
    case DType::F8E4M3FN:
    case DType::F8E5M2:
    case DType::F8E4M3FNUZ:
    case DType::F8E5M2FNUZ:
    case DType::F8E8M0FNU:
      return 1;
    case DType::S16:
    case DType::U16:
    case DType::F16:
    case DType::BF16:
      return 2;
    case DType::S32:
    case DType::U32:
    case DType::F32:
      return 4;
    case DType::S64:
    case DType::U64:
    case DType::F64:
    case DType::C64:
      return 8;
    case DType::C128:
      return 16;
  }
  return 0;
}

bool is_complex(DType dtype) { return dtype == DType::C64 || dtype == DType::C128; }

bool is_float(DType dtype) { return dtype >= DType::F8E4M3FN && dtype <= DType::F64; }

bool is_signed_int(DType dtype) { return dtype >= DType::S8 && dtype <= DType::S64; }

bool is_unsigned_int(DType dtype) { return dtype >= DType::U8 && dtype <= DType::U64; }

bool is_int(DType dtype) { return is_signed_int(dtype) || is_unsigned_int(dtype); }

DType real_dtype(DType dtype) {
  if (dtype == DType::C64) return DType::F32;
  if (dtype == DType::C128) return DType::F64;
  return dtype;
}

DType complex_dtype(DType dtype) {
  if (is_complex(dtype)) return dtype;
  return dtype == DType::F64 ? DType::C128 : DType::C64;
}

int64_t numel(const Dims& dims) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  return count;
}

int64_t Type::numel() const { return stablehlo::numel(dims); }

std::string to_string(const Type& type) {
  std::string out;
  append_type(out, type);
  return out;
}

void append_int(std::string& out, int64_t value) {
  char buffer[24];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  out.append(buffer, end);
}

void append_type(std::string& out, const Type& type) {
  out += "tensor<";
  for (int64_t d : type.dims) {
    append_int(out, d);
    out += 'x';
  }
  out += name(type.dtype);
  out += '>';
}

void append_list(std::string& out, const Dims& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (i != 0) out += ", ";
    append_int(out, values[i]);
  }
}

std::string to_string(const Dims& values) {
  std::string out = "[";
  append_list(out, values);
  out += ']';
  return out;
}

}  // namespace torch_tpu::stablehlo
