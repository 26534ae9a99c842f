#include "stablehlo/literal.h"

#include <bit>
#include <charconv>
#include <cmath>

#include "stablehlo/builder.h"
#include "stablehlo/text.h"

namespace torch_tpu::stablehlo {
namespace {

/// A binary floating format narrower than f64, sign bit on top.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  uint64_t largest;   // bits of the largest finite number
  uint64_t infinity;  // 0: there is none
  uint64_t nan;
  bool negative_zero;  // the FNUZ formats use those bits for NaN

  int width() const { return 1 + exponent_bits + mantissa_bits; }
};

Format format_of(DType dtype) {
  switch (dtype) {
    case DType::F8E4M3FN:
      return {4, 3, 7, 0x7E, 0, 0x7F, true};
    case DType::F8E5M2:
      return {5, 2, 15, 0x7B, 0x7C, 0x7E, true};
    case DType::F8E4M3FNUZ:
      return {4, 3, 8, 0x7F, 0, 0x80, false};
    case DType::F8E5M2FNUZ:
      return {5, 2, 16, 0x7F, 0, 0x80, false};
    case DType::F16:
      return {5, 10, 15, 0x7BFF, 0x7C00, 0x7E00, true};
    case DType::BF16:
      return {8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0, true};
    case DType::F32:
      return {8, 23, 127, 0x7F7FFFFF, 0x7F800000, 0x7FC00000, true};
    default:
      return {11, 52, 1023, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0x7FF8000000000000, true};
  }
}

// F8E8M0FNU is a power of two alone: no sign, no zero, no infinity; 0xFF is NaN.
constexpr uint64_t kScaleNan = 0xFF;
constexpr int kScaleBias = 127;

uint64_t encode_scale(double value) {
  if (std::isnan(value) || value < 0) return kScaleNan;
  if (value == 0) return 0;  // the least power of two: the nearest there is
  int exponent = 0;
  double mantissa = std::frexp(value, &exponent);  // [0.5, 1)
  int64_t biased = exponent - 1 + kScaleBias + (mantissa >= 0.75 ? 1 : 0);
  if (std::isinf(value) || biased >= static_cast<int64_t>(kScaleNan)) return kScaleNan;
  return biased < 0 ? 0 : static_cast<uint64_t>(biased);
}

/// Rounds to odd, so that a later rounding to a narrower format is right: an inexact result gets
/// its last bit set and so can never look like a tie.
double to_double_odd(int64_t value) {
  uint64_t magnitude = value < 0 ? ~static_cast<uint64_t>(value) + 1 : static_cast<uint64_t>(value);
  int excess = std::bit_width(magnitude) - 53;
  if (excess > 0) {
    uint64_t mask = (uint64_t{1} << excess) - 1;
    bool inexact = (magnitude & mask) != 0;
    magnitude &= ~mask;
    if (inexact) magnitude |= uint64_t{1} << excess;
  }
  double result = static_cast<double>(magnitude);
  return value < 0 ? -result : result;
}

void append_hex(std::string& out, uint64_t bits, int bytes) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  for (int shift = bytes * 8 - 4; shift >= 0; shift -= 4) out += kDigits[(bits >> shift) & 15];
}

template <class T>
void append_decimal(std::string& out, T value) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  // MLIR's number needs a point: 1e+30 is not one.
  size_t e = text.find('e');
  std::string_view mantissa = text.substr(0, e);
  out += mantissa;
  if (mantissa.find('.') == std::string_view::npos) out += ".0";
  if (e != std::string_view::npos) out += text.substr(e);
}

}  // namespace

bool has_infinity(DType dtype) {
  return dtype != DType::F8E8M0FNU && format_of(dtype).infinity != 0;
}

uint64_t largest_finite(DType dtype) {
  return dtype == DType::F8E8M0FNU ? kScaleNan - 1 : format_of(dtype).largest;
}

uint64_t encode_float(DType dtype, double value) {
  if (dtype == DType::F8E8M0FNU) return encode_scale(value);
  const Format f = format_of(dtype);
  if (std::isnan(value)) return f.nan;
  if (dtype == DType::F64) return std::bit_cast<uint64_t>(value);
  if (dtype == DType::F32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  uint64_t sign = std::signbit(value) ? uint64_t{1} << (f.width() - 1) : 0;
  uint64_t overflow = f.infinity != 0 ? sign | f.infinity : f.nan;
  double magnitude = std::fabs(value);
  if (std::isinf(magnitude)) return overflow;
  if (magnitude == 0) return f.negative_zero ? sign : 0;

  int exponent = 0;
  std::frexp(magnitude, &exponent);
  int scale = std::max(exponent - 1, 1 - f.bias);  // below the least normal: denormals
  double steps = std::nearbyint(std::ldexp(magnitude, f.mantissa_bits - scale));
  uint64_t implicit = uint64_t{1} << f.mantissa_bits;
  // A carry out of the mantissa, and a denormal that rounds up to a normal, come out right by
  // themselves: the next bits up are the exponent.
  uint64_t bits = (static_cast<uint64_t>(scale + f.bias) << f.mantissa_bits) - implicit +
                  static_cast<uint64_t>(steps);
  if (bits > f.largest) return overflow;
  if (bits == 0 && !f.negative_zero) return 0;
  return sign | bits;
}

uint64_t encode_float_from_int(DType dtype, int64_t value) {
  if (dtype == DType::F64) return std::bit_cast<uint64_t>(static_cast<double>(value));
  if (dtype == DType::F32) return std::bit_cast<uint32_t>(static_cast<float>(value));
  return encode_float(dtype, to_double_odd(value));
}

double decode_float(DType dtype, uint64_t bits) {
  if (dtype == DType::F64) return std::bit_cast<double>(bits);
  if (dtype == DType::F32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (dtype == DType::F8E8M0FNU) {
    if (bits == kScaleNan) return std::nan("");
    return std::ldexp(1.0, static_cast<int>(bits) - kScaleBias);
  }
  const Format f = format_of(dtype);
  uint64_t sign_bit = uint64_t{1} << (f.width() - 1);
  double sign = (bits & sign_bit) != 0 ? -1.0 : 1.0;
  if (!f.negative_zero && bits == f.nan) return std::nan("");
  uint64_t magnitude = bits & (sign_bit - 1);
  if (magnitude > f.largest) return magnitude == f.infinity ? sign * INFINITY : std::nan("");
  uint64_t implicit = uint64_t{1} << f.mantissa_bits;
  auto exponent = static_cast<int>(magnitude >> f.mantissa_bits);
  uint64_t mantissa = magnitude & (implicit - 1);
  if (exponent == 0) {
    return sign * std::ldexp(static_cast<double>(mantissa), 1 - f.bias - f.mantissa_bits);
  }
  return sign *
         std::ldexp(static_cast<double>(mantissa + implicit), exponent - f.bias - f.mantissa_bits);
}

uint64_t encode_int(DType dtype, int64_t value) {
  if (dtype == DType::Pred) return value != 0 ? 1 : 0;
  if (is_float(dtype)) return encode_float_from_int(dtype, value);
  int64_t bytes = byte_size(dtype);
  auto bits = static_cast<uint64_t>(value);
  return bytes == 8 ? bits : bits & ((uint64_t{1} << (bytes * 8)) - 1);
}

uint64_t encode(DType dtype, double value) {
  if (is_float(dtype)) return encode_float(dtype, value);
  if (dtype == DType::Pred) return value != 0 ? 1 : 0;  // NaN is true, as in PyTorch
  constexpr double kTwo63 = 9223372036854775808.0;
  if (dtype == DType::U64 && value >= kTwo63 && value < 2 * kTwo63) {
    return static_cast<uint64_t>(value);
  }
  if (!(value >= -kTwo63 && value < kTwo63)) {
    std::string message = "stablehlo.constant: ";
    append_decimal(message, value);
    throw BuildError(message + " is no " + std::string(name(dtype)));
  }
  return encode_int(dtype, static_cast<int64_t>(value));
}

void append_element(std::string& out, DType dtype, uint64_t bits) {
  if (dtype == DType::Pred) {
    out += bits != 0 ? "true" : "false";
    return;
  }
  auto bytes = static_cast<int>(byte_size(dtype));
  if (is_signed_int(dtype)) {
    int unused = 64 - bytes * 8;
    append_int(out, static_cast<int64_t>(bits << unused) >> unused);
    return;
  }
  if (is_unsigned_int(dtype)) {
    char buffer[24];
    out.append(buffer, std::to_chars(buffer, buffer + sizeof(buffer), bits).ptr);
    return;
  }
  double value = decode_float(dtype, bits);
  if (std::isfinite(value) && bytes > 1) {
    size_t start = out.size();
    if (dtype == DType::F64) {
      append_decimal(out, value);
    } else {
      append_decimal(out, static_cast<float>(value));
    }
    // The parser reads a double and rounds that; rounding twice could, once in a blue moon, miss.
    double parsed = 0;
    std::from_chars(out.data() + start, out.data() + out.size(), parsed);
    if (encode_float(dtype, parsed) == bits) return;
    out.resize(start);
  }
  out += "0x";
  append_hex(out, bits, bytes);
}

void append_blob(std::string& out, DType dtype, uint64_t bits) {
  for (int64_t i = byte_size(dtype); i > 0; --i, bits >>= 8) append_hex(out, bits & 0xFF, 1);
}

}  // namespace torch_tpu::stablehlo
