// Mistakes in lowerings are told apart, with the operation and its operands.
#include <gtest/gtest.h>

#include "stablehlo/builder.h"
#include "stablehlo/math.h"

namespace torch_tpu::stablehlo {
namespace {

template <class Function>
std::string message(Function function) {
  try {
    function();
  } catch (const BuildError& error) {
    return error.what();
  }
  return "no error";
}

class Errors : public testing::Test {
 protected:
  Value f32(const Dims& dims) { return b.parameter({DType::F32, dims}); }
  Value s32(const Dims& dims) { return b.parameter({DType::S32, dims}); }
  Builder b;
};

TEST_F(Errors, Elementwise) {
  EXPECT_EQ(message([&] { b.binary("add", f32({2}), f32({3})); }),
            "stablehlo.add: operands differ: tensor<2xf32> and tensor<3xf32>");
  EXPECT_EQ(message([&] { f32({2}) + s32({2}); }),
            "stablehlo.add: operands differ: tensor<2xf32> and tensor<2xi32>");
  EXPECT_EQ(message([&] { b.binary("and", f32({2}), f32({2})); }),
            "stablehlo.and: not for this dtype (operands: tensor<2xf32>, tensor<2xf32>)");
  EXPECT_EQ(message([&] { exp(s32({2})); }),
            "stablehlo.exponential: not for this dtype (operand: tensor<2xi32>)");
  EXPECT_EQ(message([&] { b.unary("exp", f32({2})); }),
            "stablehlo.exp: no elementwise operation has this name (operand: tensor<2xf32>)");
  EXPECT_EQ(message([&] { erf(s32({})); }), "chlo.erf: not for this dtype (operand: tensor<i32>)");
  EXPECT_EQ(message([&] { b.select(f32({2}), f32({2}), f32({2})); }),
            "stablehlo.select: the first operand must be i1, of the others' shape or 0-d "
            "(operands: tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)");
  EXPECT_EQ(message([&] { b.clamp(f32({3}), f32({2}), f32({})); }),
            "stablehlo.clamp: the bounds must be of the operand's type, or 0-d "
            "(operands: tensor<3xf32>, tensor<2xf32>, tensor<f32>)");
  Value z = b.parameter({DType::C64, {2}});
  EXPECT_EQ(message([&] { lt(z, z); }),
            "stablehlo.compare: complex numbers have no order "
            "(operands: tensor<2xcomplex<f32>>, tensor<2xcomplex<f32>>)");
  EXPECT_THROW(b.compare(Compare::LT, s32({}), s32({}), CompareKind::Total), BuildError);
  EXPECT_THROW(b.bitcast_convert(f32({2}), DType::C64), BuildError);
  EXPECT_THROW(b.bitcast_convert(f32({3}), DType::F64), BuildError);
  EXPECT_THROW(b.complex(b.parameter({DType::F16, {}}), b.parameter({DType::F16, {}})), BuildError);
  EXPECT_THROW(b.reduce_precision(s32({}), 5, 10), BuildError);
}

TEST_F(Errors, Constants) {
  EXPECT_THROW(b.constant_complex(DType::F32, {1, 2}), BuildError);
  EXPECT_THROW(b.constant_ints(DType::S32, std::vector<int64_t>{1, 2}, {3}), BuildError);
  EXPECT_THROW(b.constant_floats(DType::C64, std::vector<double>{1}), BuildError);
  EXPECT_THROW(b.lowest(DType::C64), BuildError);
  EXPECT_THROW(b.iota({DType::S32, {}}, 0), BuildError);
  EXPECT_THROW(b.iota({DType::Pred, {2}}, 0), BuildError);
}

TEST_F(Errors, Shape) {
  Value x = f32({2, 3});
  Value i = s32({});
  EXPECT_EQ(message([&] { b.reshape(x, {4}); }),
            "stablehlo.reshape: the elements of tensor<2x3xf32> do not fit tensor<4xf32>");
  EXPECT_EQ(message([&] { b.transpose(x, {0, 0}); }),
            "stablehlo.transpose: permutation [0, 0] must be distinct and in [0, 2) "
            "(operand: tensor<2x3xf32>)");
  EXPECT_EQ(message([&] { b.slice(x, {0, 0}, {2, 4}); }),
            "stablehlo.slice: dimension 1 has no slice 0:4:1 (operand: tensor<2x3xf32>)");
  EXPECT_THROW(b.reshape(f32({0}), {-1, 0}), BuildError);
  EXPECT_THROW(b.broadcast_in_dim(x, {2, 4}, {0, 1}), BuildError);
  EXPECT_THROW(b.broadcast_in_dim(x, {2, 3}, {0}), BuildError);
  EXPECT_THROW(b.reverse(x, {2}), BuildError);
  EXPECT_THROW(b.dynamic_slice(x, Values{i}, {1, 1}), BuildError);
  EXPECT_THROW(b.dynamic_slice(x, Values{i, i}, {3, 1}), BuildError);
  EXPECT_THROW(b.dynamic_slice(x, Values{i, f32({})}, {1, 1}), BuildError);
  EXPECT_THROW(b.dynamic_update_slice(x, f32({3, 3}), Values{i, i}), BuildError);
  EXPECT_THROW(b.pad(x, f32({1}), {0, 0}, {1, 0}), BuildError);
  EXPECT_THROW(b.pad(x, f32({}), {-2, 0}, {-1, 0}), BuildError);
  EXPECT_THROW(b.concatenate({}, 0), BuildError);
  EXPECT_THROW(b.concatenate(Values{x, f32({2})}, 0), BuildError);
  EXPECT_THROW(b.concatenate(Values{x, f32({3, 2})}, 0), BuildError);
}

TEST_F(Errors, Contractions) {
  EXPECT_EQ(message([&] {
              b.dot_general(f32({2, 3}), f32({4, 2}), {{}, {}, {1}, {0}}, Precision::Default,
                            DType::F32);
            }),
            "stablehlo.dot_general: sizes of dimensions 1 and 0 differ "
            "(operands: tensor<2x3xf32>, tensor<4x2xf32>)");
  EXPECT_THROW(
      b.dot_general(f32({2}), s32({2}), {{}, {}, {0}, {0}}, Precision::Default, DType::F32),
      BuildError);
  EXPECT_THROW(
      b.dot_general(f32({2}), f32({2}), {{0}, {0}, {0}, {0}}, Precision::Default, DType::F32),
      BuildError);
  ConvConfig config;
  config.dims = {0, 1, 1, 0, 0, 1, {2}, {2}, {2}};
  EXPECT_THROW(b.convolution(f32({1, 2, 5}), f32({1, 3, 3}), config, DType::F32), BuildError);
  EXPECT_THROW(b.convolution(f32({1, 2, 5}), f32({1, 2, 0}), config, DType::F32), BuildError);
  config.dims.input_feature = 0;
  EXPECT_THROW(b.convolution(f32({1, 2, 5}), f32({1, 2, 3}), config, DType::F32), BuildError);
}

TEST_F(Errors, Regions) {
  Value x = f32({4});
  Value zero = b.constant(DType::F32, 0);
  EXPECT_EQ(message([&] {
              b.reduce({&x, 1}, {&zero, 1}, {0}, [](Builder&, std::span<const Value> a) -> Values {
                return {lt(a[0], a[1])};
              });
            }),
            "stablehlo.reduce: the body returns (tensor<i1>), not (tensor<f32>) "
            "(operands: tensor<4xf32>, tensor<f32>)");
  EXPECT_EQ(message([&] {
              b.reduce({&x, 1}, {&zero, 1}, {0},
                       [&](Builder&, std::span<const Value> a) -> Values { return {a[0] + zero}; });
            }),
            "stablehlo.add: an operand lives outside of the region being built, or in one already "
            "closed (operands: tensor<f32>, tensor<f32>)");
  // What failed leaves no trace.
  EXPECT_EQ(b.finish(Values{zero}, "m").find("stablehlo.reduce"), std::string::npos);

  Value leaked;
  Value pred = b.parameter({DType::Pred, {}});
  b.if_else(
      pred, [&](Builder&, auto) -> Values { return {leaked = zero + 1.0}; },
      [&](Builder&, auto) -> Values { return {zero}; });
  EXPECT_THROW(leaked + 1.0, BuildError);
  EXPECT_EQ(message([&] {
              b.if_else(
                  pred, [&](Builder&, auto) -> Values { return {zero}; },
                  [&](Builder&, auto) -> Values { return {}; });
            }),
            "stablehlo.if: the second branch returns (), not (tensor<f32>) (operand: tensor<i1>)");
  EXPECT_THROW(b.while_loop({}, nullptr, nullptr), BuildError);
  EXPECT_THROW(b.sort({&zero, 1}, 0, true, nullptr), BuildError);
  EXPECT_THROW(b.reduce(x, f32({1}), {0}, "add"), BuildError);
  EXPECT_THROW(b.reduce(x, zero, {1}, "add"), BuildError);
}

TEST_F(Errors, Windows) {
  Value x = f32({4, 4});
  Value zero = b.constant(DType::F32, 0);
  Window window;
  window.size = {2};
  EXPECT_THROW(b.reduce_window(x, zero, window, "add"), BuildError);
  window.size = {2, 0};
  EXPECT_THROW(b.reduce_window(x, zero, window, "add"), BuildError);
  window.size = {2, 2};
  window.strides = {2, 2};
  EXPECT_THROW(b.select_and_scatter(x, f32({3, 3}), zero, window, nullptr, nullptr), BuildError);
}

TEST_F(Errors, Indexing) {
  Value x = f32({3, 4});
  GatherDims gather;
  gather.offset_dims = {1};
  gather.collapsed_slice_dims = {0};
  gather.start_index_map = {0};
  gather.index_vector_dim = 1;
  gather.slice_sizes = {1, 5};
  EXPECT_EQ(message([&] { b.gather(x, s32({2}), gather); }),
            "stablehlo.gather: slice sizes [1, 5] do not fit the operand "
            "(operands: tensor<3x4xf32>, tensor<2xi32>)");
  EXPECT_THROW(b.gather(x, f32({2}), gather), BuildError);
  gather.slice_sizes = {1, 4};
  EXPECT_THROW(b.gather(x, s32({2, 2}), gather), BuildError);
  ScatterDims scatter;
  scatter.update_window_dims = {1};
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  EXPECT_EQ(message([&] { b.scatter(x, s32({2}), f32({3, 4}), scatter, nullptr); }),
            "stablehlo.scatter: dimension 0 of the updates does not fit "
            "(operands: tensor<3x4xf32>, tensor<2xi32>, tensor<3x4xf32>)");
  EXPECT_THROW(b.scatter(x, s32({2}), s32({2, 4}), scatter, nullptr), BuildError);
}

TEST_F(Errors, LinearAlgebra) {
  EXPECT_THROW(b.cholesky(f32({2, 3}), true), BuildError);
  EXPECT_THROW(b.cholesky(s32({2, 2}), true), BuildError);
  EXPECT_THROW(b.triangular_solve(f32({2, 2}), f32({3, 1}), true, true, false, "NO_TRANSPOSE"),
               BuildError);
  EXPECT_THROW(b.triangular_solve(f32({2, 2}), f32({2, 1}), true, true, false, "transpose"),
               BuildError);
  EXPECT_THROW(b.fft(f32({8}), "FFT", {8}), BuildError);
  EXPECT_THROW(b.fft(f32({8}), "RFFT", {9}), BuildError);
  EXPECT_THROW(b.fft(f32({8}), "DCT", {8}), BuildError);
}

TEST_F(Errors, ValuesAndPrograms) {
  Builder other;
  Value x = f32({2});
  EXPECT_EQ(message([&] { b.unary("negate", Value()); }), "stablehlo.negate: an operand is empty");
  EXPECT_EQ(message([&] { other.unary("negate", x); }),
            "stablehlo.negate: an operand belongs to another builder");
  EXPECT_THROW(Value().type(), BuildError);
  EXPECT_THROW(b.alias(5, 0), BuildError);
  b.alias(0, 1);
  EXPECT_THROW(b.finish(Values{x}, "m"), BuildError);  // there is no result 1
  Value y = s32({2});
  EXPECT_EQ(message([&] { b.finish(Values{x, y}, "m"); }),
            "func.return: parameter 0 (tensor<2xf32>) is donated to result 1 (tensor<2xi32>)");
  EXPECT_THROW(b.alias(1, 1), BuildError);  // taken
}

TEST_F(Errors, Broadcasting) {
  EXPECT_EQ(message([&] { f32({2, 3}) + f32({2}); }),
            "broadcast: shapes [2, 3] and [2] do not fit");
  EXPECT_EQ(message([&] { broadcast_to(f32({2, 3}), {3}); }),
            "broadcast: tensor<2x3xf32> has more dimensions than [3]");
  EXPECT_EQ(message([] { wrap_dim(2, 2); }), "dimension 2 is out of range for 2 dimensions");
  EXPECT_THROW(swap_last(f32({2})), BuildError);
}

}  // namespace
}  // namespace torch_tpu::stablehlo
