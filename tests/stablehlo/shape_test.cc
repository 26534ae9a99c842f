// Operations that move elements, and constants.
#include <array>

#include "runner.h"

namespace torch_tpu::stablehlo {
namespace {

const Numbers kSix = {1, 2, 3, 4, 5, 6};

TEST(Shape, Move) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::S8, DType::BF16}) {
    Program p;
    Value x = p.in(t, {2, 3}, kSix);
    p.expect(p.b.reshape(x, {3, 2}), kSix);
    p.expect(p.b.transpose(x, {1, 0}), {1, 4, 2, 5, 3, 6});
    p.expect(p.b.reverse(x, {1}), {3, 2, 1, 6, 5, 4});
    p.expect(p.b.reverse(x, {0, 1}), {6, 5, 4, 3, 2, 1});
    p.expect(p.b.broadcast_in_dim(p.in(t, {2}, {1, 2}), {2, 3}, {0}), {1, 1, 1, 2, 2, 2});
    p.expect(p.b.broadcast_in_dim(p.in(t, {2, 1}, {1, 2}), {2, 3}, {0, 1}), {1, 1, 1, 2, 2, 2});
    p.expect(p.b.broadcast_in_dim(x, {3, 2}, {1, 0}), {1, 4, 2, 5, 3, 6});
    p.expect(p.b.slice(x, {0, 1}, {2, 3}), {2, 3, 5, 6});
    p.expect(p.b.slice(x, {0, 0}, {2, 3}, {1, 2}), {1, 3, 4, 6});
    p.expect(p.b.concatenate(Values{x, p.in(t, {1, 3}, {7, 8, 9})}, 0),
             {1, 2, 3, 4, 5, 6, 7, 8, 9});
    p.expect(p.b.concatenate(Values{x, p.in(t, {2, 1}, {7, 8})}, 1), {1, 2, 3, 7, 4, 5, 6, 8});
    p.run();
  }
}

TEST(Shape, Pad) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {1, 2, 3});
  Value fill = p.in(DType::F32, {}, {9});
  p.expect(p.b.pad(x, fill, {1}, {2}), {9, 1, 2, 3, 9, 9});
  p.expect(p.b.pad(x, fill, {-1}, {1}), {2, 3, 9});
  p.expect(p.b.pad(x, fill, {0}, {0}, {1}), {1, 9, 2, 9, 3});
  p.expect(p.b.pad(x, fill, {-2}, {-1}, {1}), {2, 9});
  p.expect(p.b.pad(p.in(DType::F32, {}, {5}), fill, {}, {}), {5});
  p.run();
}

TEST(Shape, DynamicSlices) {
  SKIP_WITHOUT_PLUGIN();
  for (DType index : {DType::S32, DType::S64, DType::U8}) {
    Program p;
    Value x = p.in(DType::F32, {2, 3}, kSix);
    Value zero = p.in(index, {}, {0});
    Value one = p.in(index, {}, {1});
    Value far = p.in(index, {}, {100});
    p.expect(p.b.dynamic_slice(x, Values{one, one}, {1, 2}), {5, 6});
    p.expect(p.b.dynamic_slice(x, Values{far, far}, {1, 2}), {5, 6});  // clamped
    p.expect(p.b.dynamic_update_slice(x, p.in(DType::F32, {1, 2}, {7, 8}), Values{zero, one}),
             {1, 7, 8, 4, 5, 6});
    p.expect(p.b.dynamic_slice(p.in(DType::F32, {}, {3}), {}, {}), {3});
    p.run();
  }
}

TEST(Shape, Iota) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  for (DType t : {DType::S8, DType::S64, DType::U32, DType::F32, DType::BF16}) {
    p.expect(p.b.iota({t, {2, 3}}, 1), {0, 1, 2, 0, 1, 2});
    p.expect(p.b.iota({t, {2, 3}}, 0), {0, 0, 0, 1, 1, 1});
  }
  p.expect(p.b.iota({DType::C64, {2}}, 0), {0, 0, 1, 0});
  p.run();
}

constexpr std::array kAll = {DType::Pred,       DType::S8,        DType::S16,    DType::S32,
                             DType::S64,        DType::U8,        DType::U16,    DType::U32,
                             DType::U64,        DType::F8E4M3FN,  DType::F8E5M2, DType::F8E4M3FNUZ,
                             DType::F8E5M2FNUZ, DType::F8E8M0FNU, DType::F16,    DType::BF16,
                             DType::F32,        DType::F64};

TEST(Constants, EveryDtype) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  for (DType t : kAll) {
    bool pred = t == DType::Pred;
    p.expect(p.b.constant(t, 1), {1});
    p.expect(p.b.constant_int(t, 4, {2}), {pred ? 1.0 : 4, pred ? 1.0 : 4});
    p.expect(p.b.constant_floats(t, Numbers{1, 2, 4}), {1, pred ? 1.0 : 2, pred ? 1.0 : 4});
    std::vector<int64_t> ints(100, 1);
    ints[3] = 2;
    Numbers expected(100, 1);
    expected[3] = pred ? 1 : 2;
    p.expect(p.b.constant_ints(t, ints, {10, 10}), expected);
    p.expect(p.b.constant_ints(t, std::vector<int64_t>{1, 2, 2, 1}, {2, 2}),
             {1, pred ? 1.0 : 2, pred ? 1.0 : 2, 1});
  }
  for (DType t : {DType::C64, DType::C128}) {
    p.expect(p.b.constant_complex(t, {1.5, -2}, {2}), {1.5, -2, 1.5, -2});
    p.expect(p.b.constant_complex(t, {kNan, -kInf}), {kNan, -kInf});
    p.expect(p.b.constant_int(t, -3), {-3, 0});
    p.expect(p.b.zeros({t, {1}}), {0, 0});
  }
  p.run();
}

TEST(Constants, NoDigitIsLost) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  for (double x : {0.1, 1.0 / 3, 1e30, 1.1754943508222875e-38, 3.4028234663852886e38, -0.0}) {
    p.expect(p.b.constant(DType::F32, x), {static_cast<float>(x)});
    p.expect(p.b.constant(DType::F64, x), {x});
  }
  p.expect(p.b.constant(DType::F64, 1.7976931348623157e308), {1.7976931348623157e308});
  p.expect(p.b.constant(DType::F64, 2.2250738585072014e-308), {2.2250738585072014e-308});
  for (DType t : {DType::F16, DType::BF16, DType::F32, DType::F64, DType::F8E5M2}) {
    p.expect(p.b.constant(t, kNan), {kNan});
    p.expect(p.b.highest(t), {kInf});
    p.expect(p.b.lowest(t), {-kInf});
    p.expect(p.b.constant(t, -0.0), {-0.0});
  }
  p.expect(p.b.highest(DType::F8E4M3FN), {448});
  p.expect(p.b.lowest(DType::F8E4M3FNUZ), {-240});
  p.expect_ints(p.b.constant_int(DType::S64, INT64_MIN), {INT64_MIN});
  p.expect_ints(p.b.constant_int(DType::S64, (int64_t{1} << 53) + 1), {(int64_t{1} << 53) + 1});
  p.expect_ints(p.b.constant_int(DType::U64, -1), {-1});
  p.expect_ints(p.b.highest(DType::S64), {INT64_MAX});
  p.run();
}

}  // namespace
}  // namespace torch_tpu::stablehlo
