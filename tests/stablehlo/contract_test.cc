// Dots and convolutions.
#include "runner.h"

namespace torch_tpu::stablehlo {
namespace {

TEST(Dot, EveryDtype) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F16, DType::BF16, DType::F32, DType::F64, DType::S8, DType::S32,
                  DType::S64, DType::U8, DType::F8E4M3FN, DType::F8E5M2}) {
    if (lacks_operations(t) && is_int(t)) continue;
    SCOPED_TRACE(name(t));
    Program p;
    Value a = p.in(t, {2, 3}, {1, 2, 3, 4, 1, 2});
    Value b = p.in(t, {3, 2}, {1, 0, 0, 1, 1, 1});
    DotDims dims{{}, {}, {1}, {0}};
    p.expect(p.b.dot_general(a, b, dims, Precision::Highest, t), {4, 5, 6, 3});
    DType wide = is_int(t) ? DType::S32 : DType::F32;
    p.expect(p.b.dot_general(a, b, dims, Precision::Default, wide), {4, 5, 6, 3});
    p.run();
  }
  for (DType t : {DType::C64, DType::C128}) {
    Program p;
    Value a = p.in(t, {1, 2}, {1, 2, 0, 1});
    Value b = p.in(t, {2, 1}, {1, 0, 0, 1});
    p.expect(p.b.dot_general(a, b, {{}, {}, {1}, {0}}, Precision::High, t), {0, 2});
    p.run();
  }
}

TEST(Dot, Dimensions) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  DType t = DType::F32;
  // A batch in the middle: b j, k b -> b j k with nothing contracted.
  Value a = p.in(t, {2, 2}, {1, 2, 3, 4});
  Value b = p.in(t, {3, 2}, {1, 2, 3, 4, 5, 6});
  Value outer = p.b.dot_general(a, b, {{0}, {1}, {}, {}}, Precision::Highest, t);
  EXPECT_EQ(outer.dims(), (Dims{2, 2, 3}));
  p.expect(outer, {1, 3, 5, 2, 6, 10, 6, 12, 18, 8, 16, 24});
  // Two contractions, and one with both operands' dimensions swapped.
  p.expect(p.b.dot_general(a, a, {{}, {}, {0, 1}, {0, 1}}, Precision::Highest, t), {30});
  p.expect(p.b.dot_general(a, a, {{}, {}, {0, 1}, {1, 0}}, Precision::Highest, t), {29});
  p.expect(p.b.dot_general(a, b, {{}, {}, {0}, {1}}, Precision::Highest, t),
           {7, 15, 23, 10, 22, 34});
  p.expect(p.b.dot_general(a, p.in(t, {2, 2}, {1, 1, 2, 2}), {{0}, {0}, {1}, {1}},
                           Precision::Highest, t),
           {3, 14});
  p.run();
}

ConvConfig conv_1d() {
  ConvConfig config;
  config.dims = {0, 1, 1, 0, 0, 1, {2}, {2}, {2}};
  return config;
}

TEST(Convolution, OneDimension) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::S32, DType::S8}) {
    SCOPED_TRACE(name(t));
    Program p;
    Value x = p.in(t, {1, 1, 4}, {1, 2, 3, 4});
    Value k = p.in(t, {1, 1, 2}, {1, 2});
    ConvConfig config = conv_1d();
    p.expect(p.b.convolution(x, k, config, t), {5, 8, 11});
    config.pad_low = {1};
    config.pad_high = {2};
    p.expect(p.b.convolution(x, k, config, t), {2, 5, 8, 11, 4, 0});
    config = conv_1d();
    config.strides = {2};
    p.expect(p.b.convolution(x, k, config, t), {5, 11});
    config = conv_1d();
    config.rhs_dilation = {2};
    p.expect(p.b.convolution(x, k, config, t), {7, 10});
    config = conv_1d();
    config.lhs_dilation = {2};
    p.expect(p.b.convolution(x, k, config, t), {1, 4, 2, 6, 3, 8});
    config = conv_1d();
    config.window_reversal = {true};
    p.expect(p.b.convolution(x, k, config, t), {4, 7, 10});
    config = conv_1d();
    config.pad_low = {-1};
    p.expect(p.b.convolution(x, k, config, t), {8, 11});
    p.run();
  }
}

TEST(Convolution, GroupsAndLayouts) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  DType t = DType::F32;
  // Depthwise: each feature by its own kernel.
  ConvConfig config = conv_1d();
  config.feature_groups = 2;
  Value x = p.in(t, {1, 2, 3}, {1, 2, 3, 4, 5, 6});
  p.expect(p.b.convolution(x, p.in(t, {2, 1, 2}, {1, 1, 1, 2}), config, t), {3, 5, 14, 17});
  // Batch groups: each half of the batch for its own output feature.
  config = conv_1d();
  config.batch_groups = 2;
  Value two = p.in(t, {2, 1, 3}, {1, 2, 3, 4, 5, 6});
  p.expect(p.b.convolution(two, p.in(t, {2, 1, 2}, {1, 1, 1, 2}), config, t), {3, 5, 14, 17});
  // Channels last: b 0 1 f x 0 1 i o -> b 0 1 f.
  config = ConvConfig();
  config.dims = {0, 3, 2, 3, 0, 3, {1, 2}, {0, 1}, {1, 2}};
  Value image = p.in(t, {1, 2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  Value kernel = p.in(t, {2, 2, 2, 1}, {1, 0, 1, 0, 0, 1, 0, 1});
  p.expect(p.b.convolution(image, kernel, config, t), {1 + 3 + 6 + 8});
  // No spatial dimension: a matrix product.
  config = ConvConfig();
  config.dims = {0, 1, 1, 0, 0, 1, {}, {}, {}};
  p.expect(p.b.convolution(p.in(t, {2, 2}, {1, 2, 3, 4}), p.in(t, {1, 2}, {1, 1}), config, t),
           {3, 7});
  // Three of them, and a result wider than the operands.
  config = ConvConfig();
  config.dims = {0, 1, 1, 0, 0, 1, {2, 3, 4}, {2, 3, 4}, {2, 3, 4}};
  p.expect(p.b.convolution(p.in(DType::BF16, {1, 1, 1, 2, 2}, {1, 2, 3, 4}),
                           p.in(DType::BF16, {1, 1, 1, 2, 2}, {1, 1, 1, 1}), config, t),
           {10});
  p.run();
}

}  // namespace
}  // namespace torch_tpu::stablehlo
