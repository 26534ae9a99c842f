// What XLA does at the edges, where lowerings depend on it: the plugins that we support agree on
// all of this. Where they do not (denormals, which are flushed in places) there is no test.
#include <cstdint>

#include "runner.h"

namespace torch_tpu::stablehlo {
namespace {

class EdgeTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, EdgeTest,
                         testing::Values(DType::F16, DType::BF16, DType::F32, DType::F64),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST_P(EdgeTest, NanWinsInExtremes) {
  SKIP_WITHOUT_PLUGIN();
  DType t = GetParam();
  Program p;
  Value a = p.in(t, {kNan, 1, kNan, 2});
  Value b = p.in(t, {1, kNan, kNan, 3});
  p.expect(maximum(a, b), {kNan, kNan, kNan, 3});
  p.expect(minimum(a, b), {kNan, kNan, kNan, 2});
  p.expect(reduce_max(a, {0}), {kNan});
  p.expect(reduce_min(a, {0}), {kNan});
  Numbers many(1000, 1);
  many[777] = kNan;
  p.expect(reduce_max(p.in(t, many), {0}), {kNan});
  Window window;
  window.size = {2};
  p.expect(p.b.reduce_window(p.in(t, {4, kNan, 3, 2}), p.b.lowest(t), window, "maximum"),
           {kNan, kNan, 3});
  p.run();
}

TEST_P(EdgeTest, ClampKeepsNan) {
  SKIP_WITHOUT_PLUGIN();
  DType t = GetParam();
  Program p;
  Value x = p.in(t, {kNan, -5, 5, 1});
  p.expect(p.b.clamp(p.b.constant(t, -2), x, p.b.constant(t, 2)), {kNan, -2, 2, 1});
  p.expect(p.b.clamp(p.in(t, {}, {-2}), x, p.in(t, {}, {2})), {kNan, -2, 2, 1});
  p.expect(p.b.clamp(p.in(t, {}, {kNan}), x, p.in(t, {}, {2})), {kNan, kNan, kNan, kNan});
  p.expect(p.b.clamp(p.in(t, {}, {3}), p.in(t, {2}), p.in(t, {}, {1})), {1});  // high wins
  p.run();
}

TEST_P(EdgeTest, Comparisons) {
  SKIP_WITHOUT_PLUGIN();
  DType t = GetParam();
  Program p;
  Value a = p.in(t, {kNan, kNan, 0});
  Value b = p.in(t, {kNan, 1, -0.0});
  p.expect(eq(a, b), {0, 0, 1});
  p.expect(ne(a, b), {1, 1, 0});
  p.expect(lt(a, b), {0, 0, 0});
  p.expect(ge(a, b), {0, 0, 1});
  p.run();
}

TEST_P(EdgeTest, Functions) {
  SKIP_WITHOUT_PLUGIN();
  DType t = GetParam();
  Program p;
  p.expect(p.in(t, {1, -1, 0}) / p.in(t, {0, 0, 0}), {kInf, -kInf, kNan});
  p.expect(remainder(p.in(t, {1, kInf, 6}), p.in(t, {0, 2, kInf})), {kNan, kNan, 6});
  p.expect(pow(p.in(t, {0, -8, kNan, 1, kInf}), p.in(t, {0, 0.5, 0, kNan, -1})),
           {1, kNan, 1, 1, 0});
  p.expect(sqrt(p.in(t, {-1, kInf})), {kNan, kInf});
  p.expect(log(p.in(t, {0, -1, kInf})), {-kInf, kNan, kInf});
  p.expect(exp(p.in(t, {-kInf, kInf, kNan})), {0, kInf, kNan});
  p.expect(tanh(p.in(t, {-kInf, kInf, kNan})), {-1, 1, kNan});
  p.expect(sigmoid(p.in(t, {-kInf, kInf, kNan})), {0, 1, kNan});
  p.expect(sign(p.in(t, {kNan, kInf})), {kNan, 1});
  p.run();
}

TEST_P(EdgeTest, ConvertToIntegers) {
  SKIP_WITHOUT_PLUGIN();
  DType t = GetParam();
  Program p;
  Value x = p.in(t, {kNan, kInf, -kInf, 1.5, -1.5, 300});
  p.expect_ints(p.b.convert(x, DType::S8), {0, 127, -128, 1, -1, 127});
  p.expect_ints(p.b.convert(x, DType::U8), {0, 255, 0, 1, 0, 255});
  p.expect_ints(p.b.convert(x, DType::S32), {0, INT32_MAX, INT32_MIN, 1, -1, 300});
  p.expect_ints(p.b.convert(x, DType::S64), {0, INT64_MAX, INT64_MIN, 1, -1, 300});
  p.expect_ints(p.b.convert(x, DType::U64), {0, -1, 0, 1, 0, 300});
  p.expect(p.b.convert(p.in(t, {kNan, 0.25, 0, -0.0}), DType::Pred), {1, 1, 0, 0});
  p.run();
}

TEST(Edges, Integers) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  for (DType t : {DType::S8, DType::S32, DType::S64}) {
    int64_t least = t == DType::S8 ? INT8_MIN : t == DType::S32 ? INT32_MIN : INT64_MIN;
    Value a = p.in_ints(t, {5, 0, least, least});
    Value b = p.in_ints(t, {0, 0, -1, 0});
    p.expect_ints(a / b, {-1, -1, least, -1});
    p.expect_ints(remainder(a, b), {5, 0, 0, least});
    p.expect_ints(abs(a), {5, 0, least, least});
    p.expect_ints(pow(p.in_ints(t, {2, 1, -1, -1}), p.in_ints(t, {-1, -5, -3, -2})), {0, 1, -1, 1});
    // A shift by the width or more.
    Value far = p.in_ints(t, {64, 100});
    p.expect_ints(p.b.binary("shift_left", p.in_ints(t, {1, 1}), far), {0, 0});
    p.expect_ints(p.b.binary("shift_right_logical", p.in_ints(t, {-8, 8}), far), {0, 0});
    p.expect_ints(p.b.binary("shift_right_arithmetic", p.in_ints(t, {-8, 8}), far), {-1, 0});
  }
  p.expect_ints(p.in_ints(DType::U8, {5, 0}) / p.in_ints(DType::U8, {0, 0}), {255, 255});
  p.expect_ints(convert(p.in_ints(DType::S64, {(int64_t{1} << 32) + 7, -1}), DType::S32), {7, -1});
  p.expect_ints(convert(p.in_ints(DType::S32, {-1, 300}), DType::U8), {255, 44});
  p.run();
}

TEST(Edges, ConvertRoundsToNearestEven) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {1.00390625, 1.01171875, 1e39, 65519, 65520});
  p.expect(p.b.convert(x, DType::BF16), {1, 1.015625, kInf, 65536, 65536});
  p.expect(p.b.convert(x, DType::F16), {1.00390625, 1.01171875, kInf, 65504, kInf});
  Value y = p.in(DType::F32, {464, 465, 57344, 1e6, 1.0625, 1.1875});
  p.expect(p.b.convert(y, DType::F8E4M3FN), {448, kNan, kNan, kNan, 1, 1.25});
  p.expect(p.b.convert(y, DType::F8E5M2), {448, 448, 57344, kInf, 1, 1.25});
  p.expect(p.b.convert(p.in_ints(DType::S64, {16777217, INT64_MAX}), DType::F32),
           {16777216, 9223372036854775808.0});
  p.run();
}

TEST(Edges, ComplexConversions) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value z = p.in(DType::C64, {1, 2, 0, 3, 0, 0});
  p.expect(p.b.convert(z, DType::F32), {1, 0, 0});
  p.expect(p.b.convert(z, DType::Pred), {1, 1, 0});
  p.expect(is_nan(p.in(DType::C64, {kNan, 1, 1, kNan, 1, 1})), {1, 1, 0});
  p.run();
}

}  // namespace
}  // namespace torch_tpu::stablehlo
