// The helpers that make lowerings read like formulas.
#include "runner.h"

namespace torch_tpu::stablehlo {
namespace {

TEST(Math, BroadcastShapes) {
  EXPECT_EQ(broadcast_shapes({2, 1}, {3}), (Dims{2, 3}));
  EXPECT_EQ(broadcast_shapes({}, {2, 0}), (Dims{2, 0}));
  EXPECT_EQ(broadcast_shapes({1}, {0}), (Dims{0}));
  EXPECT_EQ(broadcast_shapes({4, 1, 3}, {5, 1}), (Dims{4, 5, 3}));
  EXPECT_THROW(broadcast_shapes({2}, {0}), BuildError);
}

TEST(Math, WrapDim) {
  EXPECT_EQ(wrap_dim(-1, 3), 2);
  EXPECT_EQ(wrap_dim(2, 3), 2);
  EXPECT_EQ(wrap_dim(-1, 0), 0);
  EXPECT_THROW(wrap_dim(3, 3), BuildError);
  EXPECT_THROW(wrap_dim(-4, 3), BuildError);
}

TEST(Math, Shapes) {
  Builder b;
  Value x = b.parameter({DType::F32, {2, 1, 3}});
  EXPECT_EQ(flatten(x).dims(), (Dims{6}));
  EXPECT_EQ(unsqueeze(x, -1).dims(), (Dims{2, 1, 3, 1}));
  EXPECT_EQ(unsqueeze(x, 0).dims(), (Dims{1, 2, 1, 3}));
  EXPECT_EQ(squeeze(x, 1).dims(), (Dims{2, 3}));
  EXPECT_EQ(squeeze(x, 0).dims(), x.dims());
  EXPECT_EQ(swap_last(x).dims(), (Dims{2, 3, 1}));
  EXPECT_EQ(slice_dim(x, -1, 0, 3, 2).dims(), (Dims{2, 1, 2}));
  EXPECT_EQ(reduce_sum(x, {0, 2}, true).dims(), (Dims{1, 1, 1}));
  EXPECT_EQ(reduce_sum(x, {2, 0}).dims(), (Dims{1}));
  EXPECT_EQ(iota_like(x, -1, DType::S32).type(), (Type{DType::S32, {2, 1, 3}}));
  EXPECT_EQ(all_dims(x), (Dims{0, 1, 2}));
  EXPECT_EQ(keep_dims(reduce_sum(x, {1}), x.dims(), {1}).dims(), (Dims{2, 1, 3}));
  EXPECT_EQ(where(b.parameter({DType::Pred, {3}}), x, 1.0).dims(), (Dims{2, 1, 3}));
}

TEST(Math, Operators) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value a = p.in(DType::F32, {2, 1}, {1, 2});
  Value b = p.in(DType::F32, {2}, {4, 8});
  p.expect(a + b, {5, 9, 6, 10});
  p.expect(a - b, {-3, -7, -2, -6});
  p.expect(a * b, {4, 8, 8, 16});
  p.expect(b / a, {4, 8, 2, 4});
  p.expect(-a, {-1, -2});
  p.expect(a + 1.0, {2, 3});
  p.expect(a - 1.0, {0, 1});
  p.expect(a * 3.0, {3, 6});
  p.expect(a / 2.0, {0.5, 1});
  p.expect(1.0 + a, {2, 3});
  p.expect(1.0 - a, {0, -1});
  p.expect(3.0 * a, {3, 6});
  p.expect(2.0 / a, {2, 1});
  p.expect(lt(a, b), {1, 1, 1, 1});
  p.expect(eq(a, 1), {1, 0});
  p.expect(ne(a, 1), {0, 1});
  p.expect(lt(a, 2), {1, 0});
  p.expect(le(a, 2), {1, 1});
  p.expect(gt(a, 1), {0, 1});
  p.expect(ge(a, 2), {0, 1});
  p.expect(where(gt(a, 1), b, a), {1, 1, 4, 8});
  p.expect(where(gt(a, 1), a, 0.0), {0, 2});
  p.expect(where(gt(a, 1), 9.0, a), {1, 9});
  p.expect(where(p.in(DType::Pred, {}, {1}), a, b), {1, 1, 2, 2});
  p.expect(p.in_ints(DType::S32, {7, -7}) / p.in_ints(DType::S32, {2, 2}), {3, -3});
  p.run();
}

TEST(Math, Functions) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  DType t = DType::F32;
  double e = tolerance(t);
  Value x = p.in(t, {0.5, 0.25});
  p.expect(exp(x), {std::exp(0.5), std::exp(0.25)}, e);
  p.expect(expm1(x), {std::expm1(0.5), std::expm1(0.25)}, e);
  p.expect(log(x), {std::log(0.5), std::log(0.25)}, e);
  p.expect(log1p(x), {std::log1p(0.5), std::log1p(0.25)}, e);
  p.expect(sqrt(x), {std::sqrt(0.5), 0.5}, e);
  p.expect(rsqrt(x), {std::sqrt(2), 2}, e);
  p.expect(tanh(x), {std::tanh(0.5), std::tanh(0.25)}, e);
  p.expect(sin(x), {std::sin(0.5), std::sin(0.25)}, e);
  p.expect(cos(x), {std::cos(0.5), std::cos(0.25)}, e);
  p.expect(tan(x), {std::tan(0.5), std::tan(0.25)}, e);
  p.expect(sigmoid(x), {1 / (1 + std::exp(-0.5)), 1 / (1 + std::exp(-0.25))}, e);
  p.expect(erf(x), {std::erf(0.5), std::erf(0.25)}, e);
  p.expect(pow(x, p.in(t, {2, 0.5})), {0.25, 0.5}, e);
  p.expect(atan2(x, p.in(t, {-1, 1})), {std::atan2(0.5, -1), std::atan2(0.25, 1)}, e);
  p.expect(remainder(p.in(t, {-5, 5}), p.in(t, {3, -3})), {-2, 2});
  p.expect(floor(p.in(t, {-0.5, 1.5})), {-1, 1});
  p.expect(ceil(p.in(t, {-1.5, 1.5})), {-1, 2});
  p.expect(round_even(p.in(t, {0.5, 1.5})), {0, 2});
  p.expect(abs(p.in(t, {-2, 3})), {2, 3});
  p.expect(sign(p.in(t, {-2, 3})), {-1, 1});
  Value n = p.in_ints(DType::U8, {0, 200});
  p.expect(abs(n), {0, 200});
  p.expect(sign(n), {0, 1});
  p.expect(floor(n), {0, 200});
  p.expect(is_nan(n), {0, 0});
  p.expect(convert(n, t), {0, 200});
  p.expect(constant_like(x, 3), {3, 3});
  p.expect(constant_int_like(x, 3), {3, 3});
  p.expect(ones_like(x), {1, 1});
  p.expect(zeros_like(x), {0, 0});
  p.run();
}

TEST(Math, Reductions) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {2, 3}, {1, 2, 3, 4, 5, 6});
  p.expect(reduce_sum(x, {0}), {5, 7, 9});
  p.expect(reduce_prod(x, {1}, true), {6, 120});
  p.expect(reduce_max(x, {1, 0}), {6});
  p.expect(reduce_min(x, {1}), {1, 4});
  p.expect(reduce_sum(p.in(DType::C64, {2}, {1, 2, 3, 4}), {0}), {4, 6});
  p.run();
}

}  // namespace
}  // namespace torch_tpu::stablehlo
