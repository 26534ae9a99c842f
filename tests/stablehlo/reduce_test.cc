// Reductions, windows and sorting.
#include "runner.h"

namespace torch_tpu::stablehlo {
namespace {

Values add(Builder&, std::span<const Value> a) { return {a[0] + a[1]}; }
Values greater_equal(Builder&, std::span<const Value> a) { return {ge(a[0], a[1])}; }

TEST(Reduce, EveryDtype) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F16, DType::BF16, DType::F32, DType::F64, DType::S8, DType::S32,
                  DType::S64, DType::U8, DType::U64, DType::F8E5M2}) {
    SCOPED_TRACE(name(t));
    Program p;
    Value x = p.in(t, {2, 3}, {1, 2, 3, 4, 5, 6});
    p.expect(reduce_sum(x, {0}), {5, 7, is_float(t) && byte_size(t) == 1 ? 8.0 : 9.0},
             tolerance(t));
    p.expect(reduce_max(x, {1}), {3, 6});
    p.expect(reduce_min(x, {0, 1}), {1});
    p.expect(reduce_prod(p.in(t, {3}, {1, 2, 4}), {0}), {8});
    p.run();
  }
}

TEST(Reduce, Logical) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::Pred, {3, 2}, {0, 1, 1, 1, 0, 0});
  p.expect(reduce_and(x, {1}), {0, 1, 0});
  p.expect(reduce_or(x, {1}), {1, 1, 0});
  p.expect(reduce_max(x, {0}), {1, 1});
  p.expect(reduce_and(p.in_ints(DType::S32, {6, 3}), {0}), {2});
  p.expect(reduce_or(p.in_ints(DType::U8, {6, 3}), {0}), {7});
  p.run();
}

TEST(Reduce, TwoOperands) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Values xs = {p.in(DType::F32, {4}, {1, 5, 3, 5}), p.b.iota({DType::S32, {4}}, 0)};
  Values inits = {p.b.lowest(DType::F32), p.b.constant_int(DType::S32, 0)};
  Values best = p.b.reduce(xs, inits, {0}, [](Builder& b, std::span<const Value> a) -> Values {
    Value later = gt(a[2], a[0]);
    return {b.select(later, a[2], a[0]), b.select(later, a[3], a[1])};
  });
  p.expect(best[0], {5});
  p.expect(best[1], {1});
  p.run();
}

TEST(Reduce, OverNoDimension) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {1, 2});
  p.expect(p.b.reduce(x, p.b.constant(DType::F32, 0), {}, "add"), {1, 2});
  p.expect(reduce_sum(x, {}), {1, 2});
  p.run();
}

TEST(ReduceWindow, OneDimension) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::BF16, DType::S32, DType::F64}) {
    SCOPED_TRACE(name(t));
    Program p;
    Value x = p.in(t, {1, 2, 3, 4, 5});
    Value zero = p.b.constant(t, 0);
    Window window;
    window.size = {2};
    p.expect(p.b.reduce_window(x, zero, window, "add"), {3, 5, 7, 9});
    p.expect(p.b.reduce_window(x, p.b.lowest(t), window, "maximum"), {2, 3, 4, 5});
    window.strides = {2};
    p.expect(p.b.reduce_window(x, zero, window, "add"), {3, 7});
    window.pad_low = {1};
    window.pad_high = {1};
    p.expect(p.b.reduce_window(x, zero, window, "add"), {1, 5, 9});
    window = Window();
    window.size = {2};
    window.window_dilation = {3};
    p.expect(p.b.reduce_window(x, zero, window, "add"), {5, 7});
    window.window_dilation = {};
    window.base_dilation = {2};
    p.expect(p.b.reduce_window(x, zero, window, "add"), {1, 2, 2, 3, 3, 4, 4, 5});
    p.run();
  }
}

TEST(ReduceWindow, CumulativeAndTwoOperands) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {4}, {3, 1, 4, 1});
  Window window;
  window.size = {4};
  window.pad_low = {3};
  p.expect(p.b.reduce_window(x, p.b.constant(DType::F32, 0), window, "add"), {3, 4, 8, 9});
  Values xs = {x, p.b.iota({DType::S32, {4}}, 0)};
  Values inits = {p.b.lowest(DType::F32), p.b.constant_int(DType::S32, 0)};
  window = Window();
  window.size = {2};
  Values best =
      p.b.reduce_window(xs, inits, window, [](Builder& b, std::span<const Value> a) -> Values {
        Value later = gt(a[2], a[0]);
        return {b.select(later, a[2], a[0]), b.select(later, a[3], a[1])};
      });
  p.expect(best[0], {3, 4, 4});
  p.expect(best[1], {0, 2, 2});
  p.run();
}

TEST(SelectAndScatter, MaxPoolGradient) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::BF16, DType::F64}) {
    if (lacks_operations(t)) continue;
    Program p;
    Value x = p.in(t, {1, 5, 3, 2, 2, 2});
    Window window;
    window.size = {2};
    window.strides = {2};
    Value source = p.in(t, {10, 20, 30});
    p.expect(p.b.select_and_scatter(x, source, p.b.constant(t, 0), window, greater_equal, add),
             {0, 10, 20, 0, 30, 0});
    window.strides = {1};
    p.expect(p.b.select_and_scatter(x, p.in(t, {1, 2, 3, 4, 5}), p.b.constant(t, 0), window,
                                    greater_equal, add),
             {0, 3, 3, 4, 5, 0});
    p.run();
  }
}

TEST(Sort, StableWithPayload) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::S64, DType::U8, DType::BF16, DType::F64}) {
    Program p;
    Value keys = p.in(t, {2, 4}, {3, 1, 2, 1, 0, 0, 5, 4});
    Values xs = {keys, p.b.iota({DType::S32, {2, 4}}, 1)};
    Values sorted = p.b.sort(
        xs, 1, true, [](Builder&, std::span<const Value> a) -> Values { return {lt(a[0], a[1])}; });
    p.expect(sorted[0], {1, 1, 2, 3, 0, 0, 4, 5});
    p.expect(sorted[1], {1, 3, 2, 0, 0, 1, 3, 2});
    Values down = p.b.sort({&keys, 1}, 0, false, [](Builder&, std::span<const Value> a) -> Values {
      return {gt(a[0], a[1])};
    });
    p.expect(down[0], {3, 1, 5, 4, 0, 0, 2, 1});
    p.run();
  }
}

TEST(Sort, NanLast) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {kNan, -0.0, 0, -kInf, -1});
  Values sorted = p.b.sort({&x, 1}, 0, true, [](Builder& b, std::span<const Value> a) -> Values {
    return {b.compare(Compare::LT, a[0], a[1], CompareKind::Total)};
  });
  p.expect(sorted[0], {-kInf, -1, -0.0, 0, kNan});
  p.run();
}

}  // namespace
}  // namespace torch_tpu::stablehlo
