// Internal: numbers as they stand in a `dense<...>` attribute, with no digit lost.
#pragma once

#include <complex>
#include <cstdint>
#include <string>

#include "stablehlo/types.h"

namespace torch_tpu::stablehlo {

/// The bits of a real floating dtype for this number, rounded to nearest, ties to even. Numbers too
/// large become infinity, or NaN in the formats that have no infinity.
uint64_t encode_float(DType dtype, double value);
/// The same from an integer, rounded once (through double it would be rounded twice).
uint64_t encode_float_from_int(DType dtype, int64_t value);
/// The number that these bits stand for.
double decode_float(DType dtype, uint64_t bits);
/// Bits of the largest finite number.
uint64_t largest_finite(DType dtype);
bool has_infinity(DType dtype);

/// Any dtype but complex ones: the number's bits in memory, in the low byte_size(dtype) bytes.
/// Integers drop the fraction and wrap; throws BuildError for NaN, infinity and beyond 64 bits.
uint64_t encode(DType dtype, double value);
uint64_t encode_int(DType dtype, int64_t value);

/// Appends the element with these bits: `true`, `-3`, `1.5`, or `0x7FC00000` where decimals fail.
void append_element(std::string& out, DType dtype, uint64_t bits);
/// Appends the bits as hexadecimal digits of memory order, as in `dense<"0x...">`.
void append_blob(std::string& out, DType dtype, uint64_t bits);

}  // namespace torch_tpu::stablehlo
