// Whole programs as text, and what the builder leaves out.
#include <gtest/gtest.h>

#include "stablehlo/builder.h"
#include "stablehlo/math.h"

namespace torch_tpu::stablehlo {
namespace {

size_t count(const std::string& text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(Text, SmallProgram) {
  Builder b;
  Value x = b.parameter({DType::F32, {2, 3}});
  Value y = b.parameter({DType::F32, {3}});
  Value sum = x + y;
  b.alias(0, 0);
  EXPECT_EQ(b.parameter_count(), 2);
  EXPECT_EQ(b.finish(Values{sum, y}, "add"), R"(module @add {
  func.func public @main(%arg0: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %arg1: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>) {
    %2 = "stablehlo.broadcast_in_dim"(%arg1) <{broadcast_dimensions = array<i64: 1>}> : (tensor<3xf32>) -> tensor<2x3xf32>
    %3 = "stablehlo.add"(%arg0, %2) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    "func.return"(%3, %arg1) : (tensor<2x3xf32>, tensor<3xf32>) -> ()
  }
}
)");
}

TEST(Text, NothingAtAll) {
  Builder b;
  EXPECT_EQ(b.finish({}, "nothing"), R"(module @nothing {
  func.func public @main() -> () {
    "func.return"() : () -> ()
  }
}
)");
}

TEST(Text, RegionsNest) {
  Builder b;
  Value x = b.parameter({DType::S32, {4}});
  Value init[] = {b.constant_int(DType::S32, 0), x};
  Values out = b.while_loop(
      init, [](Builder&, std::span<const Value> a) -> Values { return {lt(a[0], 3)}; },
      [](Builder& b, std::span<const Value> a) -> Values {
        Value sum = b.reduce(a[1], b.constant_int(DType::S32, 0), {0}, "add");
        return {sum, a[1]};
      });
  EXPECT_EQ(b.finish(Values{out[1]}, "loop"), R"(module @loop {
  func.func public @main(%arg0: tensor<4xi32>) -> (tensor<4xi32>) {
    %1 = "stablehlo.constant"() <{value = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %12:2 = "stablehlo.while"(%1, %arg0) ({
    ^bb0(%2: tensor<i32>, %3: tensor<4xi32>):
      %4 = "stablehlo.constant"() <{value = dense<3> : tensor<i32>}> : () -> tensor<i32>
      %5 = "stablehlo.compare"(%2, %4) <{comparison_direction = #stablehlo<comparison_direction LT>, compare_type = #stablehlo<comparison_type SIGNED>}> : (tensor<i32>, tensor<i32>) -> tensor<i1>
      "stablehlo.return"(%5) : (tensor<i1>) -> ()
    }, {
    ^bb0(%6: tensor<i32>, %7: tensor<4xi32>):
      %11 = "stablehlo.reduce"(%7, %1) <{dimensions = array<i64: 0>}> ({
      ^bb0(%8: tensor<i32>, %9: tensor<i32>):
        %10 = "stablehlo.add"(%8, %9) : (tensor<i32>, tensor<i32>) -> tensor<i32>
        "stablehlo.return"(%10) : (tensor<i32>) -> ()
      }) : (tensor<4xi32>, tensor<i32>) -> tensor<i32>
      "stablehlo.return"(%11, %7) : (tensor<i32>, tensor<4xi32>) -> ()
    }) : (tensor<i32>, tensor<4xi32>) -> (tensor<i32>, tensor<4xi32>)
    "func.return"(%12#1) : (tensor<4xi32>) -> ()
  }
}
)");
}

TEST(Text, EqualConstantsAreShared) {
  Builder b;
  Value x = b.parameter({DType::F32, {4}});
  Value y = (x + 1.0) * (x + 1.0);
  Value i = b.iota({DType::S32, {4}}, 0);
  EXPECT_EQ(i.id(), b.iota({DType::S32, {4}}, 0).id());
  EXPECT_NE(b.constant(DType::F32, 0.0).id(), b.constant(DType::F32, -0.0).id());
  EXPECT_NE(b.constant(DType::F32, 1.0).id(), b.constant(DType::F64, 1.0).id());
  EXPECT_EQ(count(b.finish(Values{y}, "m"), "dense<1.0> : tensor<4xf32>"), 1u);
}

TEST(Text, BodiesMakeTheirOwnConstants) {
  Builder b;
  Value x = b.parameter({DType::F32, {4}});
  Value zero = b.constant(DType::F32, 0);
  b.reduce({&x, 1}, {&zero, 1}, {0}, [](Builder& b, std::span<const Value> a) -> Values {
    return {a[0] + a[1] + b.constant(DType::F32, 0)};
  });
  // The body's constant is not visible after it, nor in the next one.
  b.reduce({&x, 1}, {&zero, 1}, {0}, [](Builder& b, std::span<const Value> a) -> Values {
    return {a[0] + a[1] + b.constant(DType::F32, 0)};
  });
  EXPECT_EQ(count(b.finish(Values{x}, "m"), "dense<0.0>"), 3u);
}

TEST(Text, LoopsUseConstantsFromOutside) {
  Builder b;
  Value init = b.constant(DType::F32, 0);
  b.while_loop(
      {&init, 1}, [](Builder&, std::span<const Value> a) -> Values { return {lt(a[0], 5)}; },
      [](Builder&, std::span<const Value> a) -> Values { return {a[0] + 0.0}; });
  EXPECT_EQ(count(b.finish({}, "m"), "dense<0.0>"), 1u);
}

TEST(Text, NoOperationWhereNothingChanges) {
  Builder b;
  Value x = b.parameter({DType::F32, {2, 3}});
  EXPECT_EQ(b.reshape(x, {2, 3}).id(), x.id());
  EXPECT_EQ(b.transpose(x, {0, 1}).id(), x.id());
  EXPECT_EQ(b.convert(x, DType::F32).id(), x.id());
  EXPECT_EQ(b.bitcast_convert(x, DType::F32).id(), x.id());
  EXPECT_EQ(b.slice(x, {0, 0}, {2, 3}).id(), x.id());
  EXPECT_EQ(b.pad(x, b.constant(DType::F32, 0), {0, 0}, {0, 0}).id(), x.id());
  EXPECT_EQ(b.reverse(x, {}).id(), x.id());
  EXPECT_EQ(b.concatenate({&x, 1}, 0).id(), x.id());
  EXPECT_EQ(broadcast_to(x, {2, 3}).id(), x.id());
}

TEST(Text, NamesAreQuotedWhereNeeded) {
  Builder b;
  EXPECT_EQ(b.finish({}, "aten.add_2").substr(0, 18), "module @aten.add_2");
  EXPECT_EQ(b.finish({}, "aten::add").substr(0, 19), "module @\"aten::add\"");
  EXPECT_EQ(b.finish({}, "a\"b").substr(0, 13), "module @\"a_b\"");
  EXPECT_EQ(b.finish({}, "").substr(0, 14), "module @\"main\"");
}

TEST(Text, LongTablesAreHexadecimal) {
  Builder b;
  std::vector<int64_t> numbers(100, 0);
  numbers[1] = -2;
  Value v = b.constant_ints(DType::S16, numbers, {10, 10});
  EXPECT_EQ(v.dims(), (Dims{10, 10}));
  EXPECT_EQ(count(b.finish({}, "m"), "dense<\"0x0000FEFF0000"), 1u);
}

TEST(Text, ParametersMayComeLate) {
  Builder b;
  Value pred = b.parameter({DType::Pred, {}});
  Value late;
  Values out = b.if_else(
      pred,
      [&](Builder& b, auto) -> Values {
        late = b.parameter({DType::F32, {}});
        return {late};
      },
      [&](Builder& b, auto) -> Values { return {b.constant(DType::F32, 1)}; });
  std::string text = b.finish(Values{out[0] + late}, "m");
  EXPECT_EQ(count(text, "@main(%arg0: tensor<i1>, %arg1: tensor<f32>)"), 1u);
}

}  // namespace
}  // namespace torch_tpu::stablehlo
