// Every elementwise operation, for every dtype that it takes.
#include <complex>
#include <cstdint>
#include <functional>

#include "runner.h"
#include "stablehlo/literal.h"

namespace torch_tpu::stablehlo {
namespace {

using Complex = std::complex<double>;

const std::vector<DType> kFloats = {DType::F16, DType::BF16, DType::F32, DType::F64};
const std::vector<DType> kSmallFloats = {DType::F8E4M3FN, DType::F8E5M2, DType::F8E4M3FNUZ,
                                         DType::F8E5M2FNUZ};
const std::vector<DType> kInts = {DType::S8, DType::S16, DType::S32, DType::S64,
                                  DType::U8, DType::U16, DType::U32, DType::U64};

std::string test_name(const testing::TestParamInfo<DType>& info) {
  std::string out(name(info.param));
  std::erase_if(out, [](char c) { return c == '<' || c == '>'; });
  return out;
}

double round_to(DType dtype, double value) {
  return decode_float(dtype, encode_float(dtype, value));
}

Numbers rounded(DType dtype, const Numbers& numbers) {
  Numbers out;
  for (double n : numbers) out.push_back(round_to(dtype, n));
  return out;
}

struct UnaryCase {
  const char* op;
  double (*reference)(double);
  Numbers inputs;
};

double round_half_away(double x) { return std::round(x); }
double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
double logistic(double x) { return 1 / (1 + std::exp(-x)); }

const std::vector<UnaryCase> kUnary = {
    {"abs", std::fabs, {-1.5, 0, 2.25}},
    {"cbrt", std::cbrt, {-8, 0.5, 27}},
    {"ceil", std::ceil, {-1.5, 0.25, 2}},
    {"cosine", std::cos, {-1, 0, 0.5, 3}},
    {"exponential", std::exp, {-2, 0, 0.5, 3}},
    {"exponential_minus_one", std::expm1, {-2, 0, 0.125, 3}},
    {"floor", std::floor, {-1.5, 0.25, 2}},
    {"log", std::log, {0.25, 1, 3}},
    {"log_plus_one", std::log1p, {-0.5, 0.125, 3}},
    {"logistic", logistic, {-3, 0, 0.5, 4}},
    {"negate", [](double x) { return -x; }, {-1.5, 0.25, 2}},
    {"round_nearest_afz", round_half_away, {-2.5, -0.5, 0.5, 1.5, 2.5}},
    {"round_nearest_even", std::nearbyint, {-2.5, -1.5, 0.5, 1.5, 2.5}},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, {0.25, 1, 3}},
    {"sign", sign_of, {-1.5, 0, 2.25}},
    {"sine", std::sin, {-1, 0, 0.5, 3}},
    {"sqrt", std::sqrt, {0, 0.25, 3}},
    {"tan", std::tan, {-1, 0, 0.5, 1}},
    {"tanh", std::tanh, {-3, 0, 0.5, 2}},
};

const std::vector<UnaryCase> kChlo = {
    {"chlo.acos", std::acos, {-0.5, 0, 0.75}}, {"chlo.acosh", std::acosh, {1, 1.5, 3}},
    {"chlo.asin", std::asin, {-0.5, 0, 0.75}}, {"chlo.asinh", std::asinh, {-0.5, 0, 2}},
    {"chlo.atan", std::atan, {-0.5, 0, 2}},    {"chlo.atanh", std::atanh, {-0.5, 0, 0.75}},
    {"chlo.cosh", std::cosh, {-0.5, 0, 2}},    {"chlo.erf", std::erf, {-0.5, 0, 2}},
    {"chlo.erfc", std::erfc, {-0.5, 0, 2}},    {"chlo.lgamma", std::lgamma, {0.5, 1, 3.5}},
    {"chlo.sinh", std::sinh, {-0.5, 0, 2}},    {"chlo.tan", std::tan, {-0.5, 0, 1}},
};

struct BinaryCase {
  const char* op;
  double (*reference)(double, double);
  Numbers a, b;
};

const std::vector<BinaryCase> kBinary = {
    {"add", [](double a, double b) { return a + b; }, {1.5, -2}, {0.25, 3}},
    {"atan2", std::atan2, {1.5, -2}, {0.25, -3}},
    {"divide", [](double a, double b) { return a / b; }, {1.5, -2}, {0.25, 4}},
    {"maximum", std::fmax, {1.5, -2}, {0.25, 3}},
    {"minimum", std::fmin, {1.5, -2}, {0.25, 3}},
    {"multiply", [](double a, double b) { return a * b; }, {1.5, -2}, {0.25, 3}},
    {"power", std::pow, {1.5, 2, -2}, {0.5, -1, 3}},
    {"remainder", std::fmod, {5.5, -5.5, 5.5}, {2, 2, -2}},
    {"subtract", [](double a, double b) { return a - b; }, {1.5, -2}, {0.25, 3}},
};

class FloatTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, FloatTest, testing::ValuesIn(kFloats), test_name);

TEST_P(FloatTest, Unary) {
  SKIP_WITHOUT_PLUGIN();
  DType t = GetParam();
  if (lacks_operations(t)) GTEST_SKIP() << "takes minutes";
  Program p;
  for (const std::vector<UnaryCase>* list : {&kUnary, &kChlo}) {
    for (const UnaryCase& c : *list) {
      SCOPED_TRACE(c.op);
      Numbers expected;
      for (double x : c.inputs) expected.push_back(c.reference(x));
      p.expect(p.b.unary(c.op, p.in(t, c.inputs)), expected, tolerance(t));
    }
  }
  p.expect(p.b.unary("chlo.digamma", p.in(t, {1, 0.5})), {-0.5772156649015329, -1.9635100260214235},
           2 * tolerance(t));
  p.expect(p.b.unary("chlo.erf_inv", p.in(t, {0.5, 0})), {0.4769362762044699, 0}, tolerance(t));
  p.expect(p.b.unary("chlo.bessel_i1e", p.in(t, {0.5})), {0.15642080318487173}, tolerance(t));
  p.run();
}

TEST_P(FloatTest, Binary) {
  SKIP_WITHOUT_PLUGIN();
  DType t = GetParam();
  if (lacks_operations(t)) GTEST_SKIP() << "takes minutes";
  Program p;
  for (const BinaryCase& c : kBinary) {
    Numbers expected;
    for (size_t i = 0; i < c.a.size(); ++i) expected.push_back(c.reference(c.a[i], c.b[i]));
    p.expect(p.b.binary(c.op, p.in(t, c.a), p.in(t, c.b)), expected, tolerance(t));
  }
  p.expect(p.b.binary("chlo.zeta", p.in(t, {2}), p.in(t, {1})), {1.6449340668482264}, tolerance(t));
  p.expect(p.b.binary("chlo.polygamma", p.in(t, {1}), p.in(t, {1})), {1.6449340668482264},
           tolerance(t));
  p.expect(p.b.binary("chlo.next_after", p.in(t, {1}), p.in(t, {2})),
           {decode_float(t, encode_float(t, 1) + 1)});
  p.run();
}

TEST_P(FloatTest, Predicates) {
  SKIP_WITHOUT_PLUGIN();
  DType t = GetParam();
  Program p;
  Value x = p.in(t, {1, kNan, kInf, -kInf});
  p.expect(p.b.is_finite(x), {1, 0, 0, 0});
  p.expect(is_nan(x), {0, 1, 0, 0});
  p.expect(p.b.unary("chlo.is_inf", x), {0, 0, 1, 1});
  p.expect(p.b.unary("chlo.is_pos_inf", x), {0, 0, 1, 0});
  p.expect(p.b.unary("chlo.is_neg_inf", x), {0, 0, 0, 1});
  if (!lacks_operations(t)) {
    p.expect(p.b.reduce_precision(p.in(t, {1.25, 1.0}), 5, 1), {1, 1});
  }
  p.run();
}

class SmallFloatTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, SmallFloatTest, testing::ValuesIn(kSmallFloats), test_name);

TEST_P(SmallFloatTest, Arithmetic) {
  SKIP_WITHOUT_PLUGIN();
  DType t = GetParam();
  Program p;
  Value a = p.in(t, {1.5, -2, 0.5});
  Value b = p.in(t, {0.25, 3, 0.5});
  p.expect(a + b, {1.75, 1, 1});
  p.expect(a * b, rounded(t, {0.375, -6, 0.25}));
  p.expect(a / b, rounded(t, {6, -2.0 / 3, 1}), tolerance(t));
  p.expect(maximum(a, b), {1.5, 3, 0.5});
  p.expect(exp(a), rounded(t, {std::exp(1.5), std::exp(-2), std::exp(0.5)}), tolerance(t));
  p.expect(lt(a, b), {0, 1, 0});
  p.expect(p.b.clamp(p.in(t, {}, {-1}), a, p.in(t, {}, {1})), {1, -1, 0.5});
  p.run();
}

TEST(Elementwise, Scale8) {
  SKIP_WITHOUT_PLUGIN();
  if (compile_only()) GTEST_SKIP() << "conversion is checked by value";
  Program p;
  Value x = p.in(DType::F8E8M0FNU, {1, 0.5, 128});
  p.expect(p.b.convert(x, DType::F32), {1, 0.5, 128});
  p.run();
}

using IntFunction = std::function<int64_t(int64_t, int64_t)>;

class IntTest : public testing::TestWithParam<DType> {
 protected:
  DType t = GetParam();
  bool is_signed = is_signed_int(t);
  int bits = static_cast<int>(8 * byte_size(t));

  /// The value of these low bits in the dtype; U64 by its bits.
  int64_t wrap(int64_t value) const {
    if (bits == 64) return value;
    auto low = static_cast<uint64_t>(value) << (64 - bits);
    return is_signed ? static_cast<int64_t>(low) >> (64 - bits)
                     : static_cast<int64_t>(low >> (64 - bits));
  }
};
INSTANTIATE_TEST_SUITE_P(All, IntTest, testing::ValuesIn(kInts), test_name);

TEST_P(IntTest, All) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  std::vector<int64_t> xs = {0, 1, 7, 100, wrap(-1), wrap(is_signed ? -100 : 200)};
  std::vector<int64_t> ys = {1, 3, 2, 7, 5, wrap(is_signed ? -7 : 9)};
  Value x = p.in_ints(t, xs);
  Value y = p.in_ints(t, ys);
  uint64_t mask = ~uint64_t{0} >> (64 - bits);
  auto u = [&](int64_t v) { return static_cast<uint64_t>(v) & mask; };
  auto unary = [&](const char* op, auto reference) {
    std::vector<int64_t> expected;
    for (int64_t v : xs) expected.push_back(wrap(reference(v)));
    p.expect_ints(p.b.unary(op, x), expected);
  };
  auto binary = [&](const char* op, const IntFunction& reference) {
    std::vector<int64_t> expected;
    for (size_t i = 0; i < xs.size(); ++i) expected.push_back(wrap(reference(xs[i], ys[i])));
    p.expect_ints(p.b.binary(op, x, y), expected);
  };
  // Signed and unsigned differ where an operand is U64 with its top bit set.
  auto by_sign = [&](auto function) -> IntFunction {
    return [=, this](int64_t a, int64_t b) {
      return is_signed ? function(a, b)
                       : static_cast<int64_t>(
                             function(static_cast<uint64_t>(a), static_cast<uint64_t>(b)));
    };
  };
  unary("negate", [](int64_t v) { return -v; });
  unary("not", [](int64_t v) { return ~v; });
  unary("popcnt", [&](int64_t v) { return std::popcount(u(v)); });
  unary("count_leading_zeros", [&](int64_t v) { return std::countl_zero(u(v)) - (64 - bits); });
  if (is_signed) {
    unary("abs", [](int64_t v) { return v < 0 ? -v : v; });
    unary("sign", [](int64_t v) { return v > 0 ? 1 : v < 0 ? -1 : 0; });
  }
  binary("add", [](int64_t a, int64_t b) { return a + b; });
  binary("subtract", [](int64_t a, int64_t b) { return a - b; });
  binary("multiply", [](int64_t a, int64_t b) { return a * b; });
  binary("divide", by_sign([](auto a, auto b) { return a / b; }));
  binary("remainder", by_sign([](auto a, auto b) { return a % b; }));
  binary("maximum", by_sign([](auto a, auto b) { return std::max(a, b); }));
  binary("minimum", by_sign([](auto a, auto b) { return std::min(a, b); }));
  binary("and", [](int64_t a, int64_t b) { return a & b; });
  binary("or", [](int64_t a, int64_t b) { return a | b; });
  binary("xor", [](int64_t a, int64_t b) { return a ^ b; });
  Value shift = p.in_ints(t, {1, 1, 1, 2, 3, 2});
  p.expect_ints(p.b.binary("shift_left", x, shift),
                {0, 2, 14, wrap(400), wrap(-8), wrap(is_signed ? -400 : 800)});
  p.expect_ints(p.b.binary("shift_right_logical", x, shift),
                {0, 0, 3, 25, wrap(static_cast<int64_t>(u(xs[4]) >> 3)),
                 wrap(static_cast<int64_t>(u(xs[5]) >> 2))});
  // On an unsigned dtype too the top bit is repeated.
  auto top_repeated = [&](int64_t v, int by) {
    return wrap(static_cast<int64_t>(u(v) << (64 - bits)) >> (64 - bits) >> by);
  };
  p.expect_ints(p.b.binary("shift_right_arithmetic", x, shift),
                {0, 0, 3, 25, top_repeated(xs[4], 3), top_repeated(xs[5], 2)});
  p.expect_ints(p.b.binary("power", p.in_ints(t, {2, 3, 5}), p.in_ints(t, {3, 2, 0})), {8, 9, 1});
  p.expect_ints(p.b.clamp(p.in(t, {}, {2}), p.in_ints(t, {1, 5, 9}), p.in(t, {}, {7})), {2, 5, 7});
  p.expect(lt(x, y), {1, 1, 0, 0, is_signed ? 1.0 : 0.0, is_signed ? 1.0 : 0.0});
  p.expect(eq(x, p.in_ints(t, {0, 2, 7, 1, 1, 1})), {1, 0, 1, 0, 0, 0});
  p.expect_ints(p.b.lowest(t), {is_signed ? wrap(int64_t{1} << (bits - 1)) : 0});
  p.expect_ints(p.b.highest(t), {wrap(static_cast<int64_t>(is_signed ? mask >> 1 : mask))});
  p.run();
}

class ComplexTest : public testing::TestWithParam<DType> {};
INSTANTIATE_TEST_SUITE_P(All, ComplexTest, testing::Values(DType::C64, DType::C128), test_name);

TEST_P(ComplexTest, All) {
  SKIP_WITHOUT_PLUGIN();
  DType t = GetParam();
  if (lacks_operations(t)) GTEST_SKIP() << "takes minutes";
  Program p;
  std::vector<Complex> xs = {{1, 2}, {-0.5, 0.25}, {0.5, -1}};
  std::vector<Complex> ys = {{2, -1}, {1, 0}, {0.5, 1.5}};
  auto flat = [](const std::vector<Complex>& values) {
    Numbers out;
    for (Complex v : values) out.insert(out.end(), {v.real(), v.imag()});
    return out;
  };
  Value x = p.in(t, flat(xs));
  Value y = p.in(t, flat(ys));
  auto unary = [&](const char* op, auto reference) {
    std::vector<Complex> expected;
    for (Complex v : xs) expected.push_back(reference(v));
    p.expect(p.b.unary(op, x), flat(expected), 4 * tolerance(t));
  };
  auto binary = [&](const char* op, auto reference) {
    std::vector<Complex> expected;
    for (size_t i = 0; i < xs.size(); ++i) expected.push_back(reference(xs[i], ys[i]));
    p.expect(p.b.binary(op, x, y), flat(expected), 8 * tolerance(t));
  };
  unary("cosine", [](Complex v) { return std::cos(v); });
  unary("exponential", [](Complex v) { return std::exp(v); });
  unary("exponential_minus_one", [](Complex v) { return std::exp(v) - 1.0; });
  unary("log", [](Complex v) { return std::log(v); });
  unary("log_plus_one", [](Complex v) { return std::log(v + 1.0); });
  unary("logistic", [](Complex v) { return 1.0 / (1.0 + std::exp(-v)); });
  unary("negate", [](Complex v) { return -v; });
  unary("rsqrt", [](Complex v) { return 1.0 / std::sqrt(v); });
  unary("sign", [](Complex v) { return v / std::abs(v); });
  unary("sine", [](Complex v) { return std::sin(v); });
  unary("sqrt", [](Complex v) { return std::sqrt(v); });
  unary("tan", [](Complex v) { return std::tan(v); });
  unary("tanh", [](Complex v) { return std::tanh(v); });
  unary("chlo.conj", [](Complex v) { return std::conj(v); });
  unary("chlo.acos", [](Complex v) { return std::acos(v); });
  unary("chlo.asinh", [](Complex v) { return std::asinh(v); });
  unary("chlo.atanh", [](Complex v) { return std::atanh(v); });
  binary("add", [](Complex a, Complex b) { return a + b; });
  binary("subtract", [](Complex a, Complex b) { return a - b; });
  binary("multiply", [](Complex a, Complex b) { return a * b; });
  binary("divide", [](Complex a, Complex b) { return a / b; });
  binary("power", [](Complex a, Complex b) { return std::pow(a, b); });
  p.expect(abs(x), {std::abs(xs[0]), std::abs(xs[1]), std::abs(xs[2])}, tolerance(t));
  p.expect(p.b.real(x), {1, -0.5, 0.5});
  p.expect(p.b.imag(x), {2, 0.25, -1});
  p.expect(p.b.complex(p.b.imag(x), p.b.real(x)), {2, 1, 0.25, -0.5, -1, 0.5});
  p.expect(eq(x, x), {1, 1, 1});
  p.expect(ne(x, y), {1, 1, 1});
  p.expect(p.b.select(p.in(DType::Pred, {1, 0, 1}), x, y), {1, 2, 1, 0, 0.5, -1});
  p.run();
}

TEST(Elementwise, Pred) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value a = p.in(DType::Pred, {0, 0, 1, 1});
  Value b = p.in(DType::Pred, {0, 1, 0, 1});
  p.expect(logical_and(a, b), {0, 0, 0, 1});
  p.expect(logical_or(a, b), {0, 1, 1, 1});
  p.expect(logical_xor(a, b), {0, 1, 1, 0});
  p.expect(logical_not(a), {1, 1, 0, 0});
  p.expect(a + b, {0, 1, 1, 1});
  p.expect(a * b, {0, 0, 0, 1});
  p.expect(maximum(a, b), {0, 1, 1, 1});
  p.expect(minimum(a, b), {0, 0, 0, 1});
  p.expect(lt(a, b), {0, 1, 0, 0});
  p.expect(ge(a, b), {1, 0, 1, 1});
  p.expect(eq(a, b), {1, 0, 0, 1});
  p.expect(p.b.lowest(DType::Pred), {0});
  p.expect(p.b.highest(DType::Pred), {1});
  p.run();
}

TEST(Elementwise, CompareAndSelect) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value a = p.in(DType::F32, {1, 2, 3, kNan});
  Value b = p.in(DType::F32, {2, 2, 2, 2});
  p.expect(eq(a, b), {0, 1, 0, 0});
  p.expect(ne(a, b), {1, 0, 1, 1});
  p.expect(lt(a, b), {1, 0, 0, 0});
  p.expect(le(a, b), {1, 1, 0, 0});
  p.expect(gt(a, b), {0, 0, 1, 0});
  p.expect(ge(a, b), {0, 1, 1, 0});
  p.expect(p.b.compare(Compare::GT, a, b, CompareKind::Total), {0, 0, 1, 1});
  p.expect(p.b.compare(Compare::LT, p.in(DType::F32, {-0.0, 0.0}), p.in(DType::F32, {0.0, -0.0}),
                       CompareKind::Total),
           {1, 0});
  p.expect(p.b.select(p.in(DType::Pred, {1, 0, 0, 1}), a, b), {1, 2, 2, kNan});
  p.expect(p.b.select(p.in(DType::Pred, {}, {0}), a, b), {2, 2, 2, 2});
  p.expect(p.b.clamp(p.in(DType::F32, {0, 0, 0, 0}), a, b), {1, 2, 2, kNan});
  p.run();
}

TEST(Elementwise, ConvertBetweenAll) {
  SKIP_WITHOUT_PLUGIN();
  std::vector<DType> all = kFloats;
  all.insert(all.end(), kSmallFloats.begin(), kSmallFloats.end());
  all.insert(all.end(), kInts.begin(), kInts.end());
  all.insert(all.end(), {DType::Pred, DType::C64, DType::C128});
  for (DType from : all) {
    SCOPED_TRACE(name(from));
    Program p;
    Value x = p.in(from, is_complex(from) ? Numbers{0, 0, 1, 0, 4, 0} : Numbers{0, 1, 4});
    double four = from == DType::Pred ? 1 : 4;
    for (DType to : all) {
      Numbers expected = {0, 1, to == DType::Pred ? 1 : four};
      if (is_complex(to)) expected = {0, 0, 1, 0, four, 0};
      p.expect(p.b.convert(x, to), expected);
    }
    p.run();
  }
}

TEST(Elementwise, BitcastConvert) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {1, -2});
  p.expect(p.b.bitcast_convert(x, DType::U32), {0x3F800000, 0xC0000000});
  p.expect(p.b.bitcast_convert(x, DType::U16), {0, 0x3F80, 0, 0xC000});
  Value bytes = p.b.bitcast_convert(x, DType::U8);
  EXPECT_EQ(bytes.dims(), (Dims{2, 4}));
  p.expect(p.b.bitcast_convert(bytes, DType::F32), {1, -2});
  p.expect(p.b.bitcast_convert(p.in(DType::BF16, {1}), DType::F16), {1.875});
  p.expect(p.b.bitcast_convert(p.in(DType::F64, {}, {1}), DType::U32), {0, 0x3FF00000});
  p.run();
}

}  // namespace
}  // namespace torch_tpu::stablehlo
