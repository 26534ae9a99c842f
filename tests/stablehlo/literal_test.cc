// Numbers in program text: rounding to each format, and that no digit is lost.
#include "stablehlo/literal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "stablehlo/builder.h"

namespace torch_tpu::stablehlo {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

std::string element(DType dtype, double value) {
  std::string out;
  append_element(out, dtype, encode(dtype, value));
  return out;
}

std::string int_element(DType dtype, int64_t value) {
  std::string out;
  append_element(out, dtype, encode_int(dtype, value));
  return out;
}

TEST(Types, NamesAndSizes) {
  EXPECT_EQ(to_string(Type{DType::F32, {2, 3}}), "tensor<2x3xf32>");
  EXPECT_EQ(to_string(Type{DType::Pred, {}}), "tensor<i1>");
  EXPECT_EQ(to_string(Type{DType::U8, {0}}), "tensor<0xui8>");
  EXPECT_EQ(to_string(Type{DType::C128, {1}}), "tensor<1xcomplex<f64>>");
  EXPECT_EQ((Type{DType::F32, {2, 0, 3}}).numel(), 0);
  EXPECT_EQ((Type{DType::F32, {}}).numel(), 1);
  EXPECT_EQ(byte_size(DType::C64), 8);
  EXPECT_EQ(byte_size(DType::Pred), 1);
}

TEST(Types, Kinds) {
  EXPECT_TRUE(is_float(DType::F8E8M0FNU) && is_float(DType::F64) && !is_float(DType::C64));
  EXPECT_TRUE(is_int(DType::U64) && is_int(DType::S8) && !is_int(DType::Pred));
  EXPECT_TRUE(is_signed_int(DType::S64) && !is_signed_int(DType::U8));
  EXPECT_EQ(real_dtype(DType::C64), DType::F32);
  EXPECT_EQ(real_dtype(DType::BF16), DType::BF16);
  EXPECT_EQ(complex_dtype(DType::F64), DType::C128);
  EXPECT_EQ(complex_dtype(DType::F16), DType::C64);
}

TEST(Literal, Bf16RoundsToNearestEven) {
  EXPECT_EQ(encode_float(DType::BF16, 1.0), 0x3F80u);
  EXPECT_EQ(encode_float(DType::BF16, 1.00390625), 0x3F80u);          // a tie: down to even
  EXPECT_EQ(encode_float(DType::BF16, 1.01171875), 0x3F82u);          // a tie: up to even
  EXPECT_EQ(encode_float(DType::BF16, 1.00390625 + 1e-12), 0x3F81u);  // not a tie, though near
  EXPECT_EQ(encode_float(DType::BF16, 3.4e38), 0x7F80u);
  EXPECT_EQ(encode_float(DType::BF16, -0.0), 0x8000u);
  EXPECT_EQ(encode_float(DType::BF16, kNan), 0x7FC0u);
  EXPECT_EQ(encode_float(DType::BF16, std::ldexp(1, -133)), 1u);  // the least denormal
  EXPECT_EQ(encode_float(DType::BF16, std::ldexp(1, -134)), 0u);
}

TEST(Literal, F16RoundsAndOverflows) {
  EXPECT_EQ(encode_float(DType::F16, 65504), 0x7BFFu);
  EXPECT_EQ(encode_float(DType::F16, 65519), 0x7BFFu);
  EXPECT_EQ(encode_float(DType::F16, 65520), 0x7C00u);
  EXPECT_EQ(encode_float(DType::F16, -kInf), 0xFC00u);
  EXPECT_EQ(encode_float(DType::F16, std::ldexp(1, -24)), 1u);
  EXPECT_EQ(encode_float(DType::F16, std::ldexp(1, -25)), 0u);
  EXPECT_EQ(encode_float(DType::F16, std::ldexp(1.5, -25)), 1u);
  EXPECT_EQ(encode_float(DType::F16, std::ldexp(2047, -25)), 0x0400u);  // up to the least normal
}

TEST(Literal, EightBitFormats) {
  EXPECT_EQ(encode_float(DType::F8E4M3FN, 448), 0x7Eu);
  EXPECT_EQ(encode_float(DType::F8E4M3FN, 464), 0x7Eu);
  EXPECT_EQ(encode_float(DType::F8E4M3FN, 465), 0x7Fu);  // no infinity: NaN
  EXPECT_EQ(encode_float(DType::F8E4M3FN, -0.0), 0x80u);
  EXPECT_EQ(encode_float(DType::F8E5M2, 57344), 0x7Bu);
  EXPECT_EQ(encode_float(DType::F8E5M2, 1e6), 0x7Cu);
  EXPECT_EQ(encode_float(DType::F8E4M3FNUZ, 240), 0x7Fu);
  EXPECT_EQ(encode_float(DType::F8E4M3FNUZ, 1000), 0x80u);
  EXPECT_EQ(encode_float(DType::F8E4M3FNUZ, -0.0), 0u);
  EXPECT_EQ(encode_float(DType::F8E5M2FNUZ, 1.0), 0x40u);
  EXPECT_EQ(encode_float(DType::F8E8M0FNU, 1.0), 0x7Fu);
  EXPECT_EQ(encode_float(DType::F8E8M0FNU, 0.0), 0u);
  EXPECT_EQ(encode_float(DType::F8E8M0FNU, -1.0), 0xFFu);
}

TEST(Literal, EveryNarrowNumberSurvives) {
  for (DType dtype : {DType::F8E4M3FN, DType::F8E5M2, DType::F8E4M3FNUZ, DType::F8E5M2FNUZ,
                      DType::F8E8M0FNU, DType::F16, DType::BF16}) {
    uint64_t count = uint64_t{1} << (8 * byte_size(dtype));
    for (uint64_t bits = 0; bits < count; ++bits) {
      double value = decode_float(dtype, bits);
      if (std::isnan(value)) continue;
      ASSERT_EQ(encode_float(dtype, value), bits) << name(dtype) << " " << value;
    }
  }
}

TEST(Literal, IntegersRoundOnce) {
  // Through double, this becomes a tie that rounds down.
  int64_t value = (int64_t{1} << 60) + (int64_t{1} << 52) + 1;
  EXPECT_EQ(encode_float_from_int(DType::BF16, value), 0x5D81u);
  EXPECT_EQ(encode_float_from_int(DType::F32, 16777217), encode_float(DType::F32, 16777216));
  EXPECT_EQ(decode_float(DType::F64, encode_float_from_int(DType::F64, -3)), -3);
  EXPECT_EQ(encode_float_from_int(DType::BF16, INT64_MIN), 0xDF00u);
}

TEST(Literal, Text) {
  EXPECT_EQ(element(DType::F32, 0.1), "0.1");
  EXPECT_EQ(element(DType::F32, 1), "1.0");
  EXPECT_EQ(element(DType::F32, 1e30), "1.0e+30");
  EXPECT_EQ(element(DType::F32, -0.0), "-0.0");
  EXPECT_EQ(element(DType::F32, kNan), "0x7FC00000");
  EXPECT_EQ(element(DType::F32, -kInf), "0xFF800000");
  EXPECT_EQ(element(DType::F64, 0.1), "0.1");
  EXPECT_EQ(element(DType::F64, kInf), "0x7FF0000000000000");
  EXPECT_EQ(element(DType::F64, 1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(element(DType::BF16, 0.1), "0.100097656");
  EXPECT_EQ(element(DType::F16, kInf), "0x7C00");
  EXPECT_EQ(element(DType::F8E5M2, 1), "0x3C");
  EXPECT_EQ(element(DType::Pred, 0.5), "true");
  EXPECT_EQ(element(DType::Pred, 0), "false");
  EXPECT_EQ(element(DType::U64, 18446744073709549568.0), "18446744073709549568");
  EXPECT_EQ(int_element(DType::S64, INT64_MIN), "-9223372036854775808");
  EXPECT_EQ(int_element(DType::U64, -1), "18446744073709551615");
  EXPECT_EQ(int_element(DType::S8, 200), "-56");
  EXPECT_EQ(int_element(DType::U8, -1), "255");
}

TEST(Literal, NoIntegerIsNanOrInfinite) {
  EXPECT_THROW(encode(DType::S32, kNan), BuildError);
  EXPECT_THROW(encode(DType::U64, kInf), BuildError);
  EXPECT_THROW(encode(DType::S64, 1e19), BuildError);
  EXPECT_EQ(encode(DType::U64, 1e19), 10000000000000000000u);
  EXPECT_EQ(encode(DType::S32, -2.9), 0xFFFFFFFEu);
}

}  // namespace
}  // namespace torch_tpu::stablehlo
