// Tensors with no elements, everywhere.
#include "runner.h"

namespace torch_tpu::stablehlo {
namespace {

Values add(Builder&, std::span<const Value> a) { return {a[0] + a[1]}; }
Values less(Builder&, std::span<const Value> a) { return {lt(a[0], a[1])}; }
Values greater_equal(Builder&, std::span<const Value> a) { return {ge(a[0], a[1])}; }

constexpr DType kF = DType::F32;

TEST(Empty, Elementwise) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::S64, DType::Pred, DType::C64, DType::BF16, DType::F8E5M2}) {
    SCOPED_TRACE(name(t));
    Program p;
    Value x = p.in(t, {0, 3}, {});
    p.expect(x, {});
    p.expect(x, {});
    p.expect(x + x, {});
    p.expect(eq(x, x), {});
    p.expect(where(eq(x, x), x, x), {});
    p.expect(p.b.convert(x, DType::F32), {});
    p.expect(p.b.optimization_barrier(x), {});
    p.expect(p.b.zeros({t, {2, 0}}), {});
    bool complex = is_complex(t);
    p.expect(reduce_sum(x, {0}), Numbers(complex ? 6 : 3, 0));
    p.expect(reduce_sum(x, {1}), {});
    p.expect(reduce_sum(x, {0, 1}), Numbers(complex ? 2 : 1, 0));
    p.run();
  }
}

TEST(Empty, Constants) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  p.expect(p.b.constant_floats(kF, {}), {});
  p.expect(p.b.constant_ints(DType::S64, {}, {3, 0}), {});
  p.expect(p.b.constant_complex(DType::C64, {1, 2}, {0}), {});
  p.expect(p.b.iota({DType::S64, {0, 2}}, 0), {});
  p.expect(p.b.iota({kF, {2, 0}}, 0), {});
  p.run();
}

TEST(Empty, Shape) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(kF, {0, 3}, {});
  Value e = p.in(kF, {0}, {});
  Value v = p.in(kF, {1, 2, 3, 4});
  Value i = p.in(DType::S32, {}, {1});
  Value fill = p.in(kF, {}, {7});
  p.expect(reshape(x, {3, 0, 2}), {});
  p.expect(broadcast_to(x, {2, 0, 3}), {});
  p.expect(broadcast_to(p.in(kF, {1}), {0}), {});
  p.expect(transpose(x, {1, 0}), {});
  p.expect(p.b.reverse(x, {0, 1}), {});
  p.expect(p.b.slice(v, {2}, {2}), {});
  p.expect(p.b.slice(v, {4}, {4}, {2}), {});
  p.expect(p.b.dynamic_slice(v, {&i, 1}, {0}), {});
  p.expect(p.b.dynamic_slice(e, {&i, 1}, {0}), {});
  p.expect(p.b.dynamic_update_slice(v, e, {&i, 1}), {1, 2, 3, 4});
  p.expect(p.b.dynamic_update_slice(e, e, {&i, 1}), {});
  p.expect(p.b.pad(e, fill, {1}, {2}), {7, 7, 7});
  p.expect(p.b.pad(e, fill, {1}, {1}, {2}), {7, 7});
  p.expect(p.b.pad(v, fill, {-2}, {-2}), {});
  p.expect(p.b.concatenate(Values{e, v, e}, 0), {1, 2, 3, 4});
  p.expect(p.b.concatenate(Values{e, e}, 0), {});
  p.expect(p.b.bitcast_convert(e, DType::U8), {});
  p.expect(p.b.bitcast_convert(p.in(DType::U8, {0, 4}, {}), kF), {});
  p.run();
}

TEST(Empty, Contractions) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  auto dot = [&](const Dims& a, const Dims& b, const DotDims& dims) {
    return p.b.dot_general(p.in(kF, a, Numbers(numel(a), 1)), p.in(kF, b, Numbers(numel(b), 1)),
                           dims, Precision::Default, kF);
  };
  p.expect(dot({2, 0}, {0, 3}, {{}, {}, {1}, {0}}), Numbers(6, 0));
  p.expect(dot({0, 2}, {2, 3}, {{}, {}, {1}, {0}}), {});
  p.expect(dot({0, 2, 2}, {0, 2, 3}, {{0}, {0}, {2}, {1}}), {});
  auto convolve = [&](const Dims& x, const Dims& kernel, int64_t padding) {
    ConvConfig config;
    config.dims = {0, 1, 1, 0, 0, 1, {2, 3}, {2, 3}, {2, 3}};
    config.pad_low = config.pad_high = {padding, padding};
    return p.b.convolution(p.in(kF, x, Numbers(numel(x), 1)),
                           p.in(kF, kernel, Numbers(numel(kernel), 1)), config, kF);
  };
  p.expect(convolve({0, 2, 4, 4}, {3, 2, 3, 3}, 1), {});
  p.expect(convolve({1, 0, 4, 4}, {3, 0, 3, 3}, 1), Numbers(48, 0));
  p.expect(convolve({1, 2, 4, 4}, {0, 2, 3, 3}, 1), {});
  p.expect(convolve({1, 2, 0, 4}, {3, 2, 3, 3}, 1), {});
  p.expect(convolve({1, 2, 0, 4}, {3, 2, 3, 3}, 2), Numbers(36, 0));
  p.expect(convolve({1, 2, 2, 4}, {3, 2, 5, 3}, 0), {});
  p.run();
}

TEST(Empty, Windows) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value zero = p.b.constant(kF, 0);
  Window window;
  window.size = {1, 2};
  p.expect(p.b.reduce_window(p.in(kF, {0, 4}, {}), zero, window, "add"), {});
  window.strides = {1, 2};
  p.expect(p.b.select_and_scatter(p.in(kF, {0, 4}, {}), p.in(kF, {0, 2}, {}), zero, window,
                                  greater_equal, add),
           {});
  window = Window();
  window.size = {2};
  window.pad_low = {2};
  window.pad_high = {1};
  p.expect(p.b.reduce_window(p.in(kF, {0}, {}), zero, window, "add"), {0, 0});
  window = Window();
  window.size = {3};
  Value two = p.in(kF, {1, 2});
  p.expect(p.b.reduce_window(two, zero, window, "add"), {});
  p.expect(p.b.select_and_scatter(two, p.in(kF, {0}, {}), zero, window, greater_equal, add),
           {0, 0});
  p.run();
}

TEST(Empty, Sort) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(kF, {0, 4}, {});
  p.expect(p.b.sort({&x, 1}, 0, true, less)[0], {});
  p.expect(p.b.sort({&x, 1}, 1, true, less)[0], {});
  Values two = {p.in(kF, {0}, {}), p.in(DType::S32, {0}, {})};
  p.expect(p.b.sort(two, 0, true, less)[1], {});
  p.run();
}

TEST(Empty, Indexing) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value table = p.in(kF, {3, 2}, {1, 2, 3, 4, 5, 6});
  Value empty = p.in(kF, {0, 2}, {});
  Value none = p.in(DType::S64, {0}, {});
  GatherDims gather;
  gather.offset_dims = {1};
  gather.collapsed_slice_dims = {0};
  gather.start_index_map = {0};
  gather.index_vector_dim = 1;
  gather.slice_sizes = {1, 2};
  p.expect(p.b.gather(table, none, gather), {});
  p.expect(p.b.gather(empty, none, gather), {});  // though there is no slice of size 1
  GatherDims whole;
  whole.offset_dims = {0};
  whole.slice_sizes = {2};
  p.expect(p.b.gather(p.in(kF, {1, 2, 3}), none, whole), {1, 2});  // an index of no dimension
  ScatterDims scatter;
  scatter.update_window_dims = {1};
  scatter.inserted_window_dims = {0};
  scatter.scatter_dims_to_operand_dims = {0};
  scatter.index_vector_dim = 1;
  Value one = p.in(DType::S64, {1}, {0});
  p.expect(p.b.scatter(table, none, empty, scatter, add), {1, 2, 3, 4, 5, 6});
  p.expect(p.b.scatter(empty, none, empty, scatter, add), {});
  p.expect(p.b.scatter(empty, one, p.in(kF, {1, 2}, {1, 2}), scatter, add), {});
  p.expect(p.b.scatter(p.in(kF, {3, 0}, {}), one, p.in(kF, {1, 0}, {}), scatter, add), {});
  p.run();
}

TEST(Empty, ControlFlow) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value init[] = {p.b.constant_int(DType::S32, 0), p.in(kF, {0}, {})};
  Values out = p.b.while_loop(
      init, [](Builder&, std::span<const Value> a) -> Values { return {lt(a[0], 3)}; },
      [](Builder&, std::span<const Value> a) -> Values { return {a[0] + 1, a[1] * 2}; });
  p.expect(out[0], {3});
  p.expect(out[1], {});
  p.run();
}

TEST(Empty, LinearAlgebra) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value none = p.in(kF, {0, 2, 2}, {});
  p.expect(p.b.cholesky(p.in(kF, {0, 0}, {}), true), {});
  p.expect(p.b.cholesky(none, true), {});
  auto solve = [&](Value a, const Dims& b) {
    return p.b.triangular_solve(a, p.in(kF, b, {}), true, true, false, "NO_TRANSPOSE");
  };
  p.expect(solve(p.in(kF, {0, 0}, {}), {0, 2}), {});
  p.expect(solve(p.in(kF, {2, 2}, {1, 0, 0, 1}), {2, 0}), {});
  p.expect(solve(none, {0, 2, 3}), {});
  p.expect(p.b.fft(p.in(DType::C64, {0, 4}, {}), "FFT", {4}), {});
  p.expect(p.b.fft(p.in(kF, {0, 4}, {}), "RFFT", {4}), {});
  p.expect(p.b.fft(p.in(DType::C64, {0, 3}, {}), "IRFFT", {4}), {});
  p.expect(p.b.fft(p.in(DType::C64, {2, 0}, {}), "FFT", {0}), {});
  p.run();
}

}  // namespace
}  // namespace torch_tpu::stablehlo
