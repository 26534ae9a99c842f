// Loops and branches, and what their bodies may use from outside.
#include "runner.h"

namespace torch_tpu::stablehlo {
namespace {

TEST(While, CarriesValuesAndCaptures) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value limit = p.in(DType::S32, {}, {5});
  Value init[] = {p.b.constant_int(DType::S32, 0), p.in(DType::F32, {1, 2})};
  Values out = p.b.while_loop(
      init, [&](Builder&, std::span<const Value> a) -> Values { return {lt(a[0], limit)}; },
      [&](Builder&, std::span<const Value> a) -> Values {
        Value factor = p.in(DType::F32, {}, {3});  // a parameter made in the body
        return {a[0] + 1, a[1] * factor};
      });
  p.expect(out[0], {5});
  p.expect(out[1], {243, 486});
  p.run();
}

TEST(While, OneValue) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value init = p.in(DType::S64, {}, {1});
  p.expect(
      p.b.while_loop(
          {&init, 1}, [](Builder&, std::span<const Value> a) -> Values { return {lt(a[0], 100)}; },
          [](Builder&, std::span<const Value> a) -> Values { return {a[0] * 3}; })[0],
      {243});
  p.run();
}

TEST(If, BothBranches) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {1, 2});
  for (double pred : {0, 1}) {
    Values out = p.b.if_else(
        p.in(DType::Pred, {}, {pred}), [&](Builder&, auto) -> Values { return {x * 2, x}; },
        [&](Builder&, auto) -> Values { return {x - 1, reduce_sum(x, {0}, true) + x}; });
    p.expect(out[0], pred != 0 ? Numbers{2, 4} : Numbers{0, 1});
    p.expect(out[1], pred != 0 ? Numbers{1, 2} : Numbers{4, 5});
  }
  p.b.if_else(
      p.in(DType::Pred, {}, {1}), [](Builder&, auto) -> Values { return {}; },
      [](Builder&, auto) -> Values { return {}; });
  p.run();
}

TEST(If, InsideAWhile) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value step = p.in(DType::S32, {}, {10});
  Value init[] = {p.b.constant_int(DType::S32, 0), p.b.constant_int(DType::S32, 0)};
  Values out = p.b.while_loop(
      init, [](Builder&, std::span<const Value> a) -> Values { return {lt(a[0], 4)}; },
      [&](Builder& b, std::span<const Value> a) -> Values {
        Value sum = a[1];
        Values next = b.if_else(
            gt(a[0], 1), [&](Builder&, auto) -> Values { return {sum + step}; },
            [&](Builder&, auto) -> Values { return {sum + 1}; });
        return {a[0] + 1, next[0]};
      });
  p.expect(out[1], {22});
  p.run();
}

}  // namespace
}  // namespace torch_tpu::stablehlo
