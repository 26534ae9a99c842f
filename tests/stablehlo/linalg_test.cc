// Linear algebra, FFT, custom calls.
#include "runner.h"

namespace torch_tpu::stablehlo {
namespace {

TEST(Cholesky, Values) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::F64}) {
    Program p;
    Value a = p.in(t, {2, 2, 2}, {4, 2, 2, 5, 9, 0, 0, 1});
    // The other triangle is not defined.
    Value l = p.b.cholesky(a, true);
    p.expect(slice_dim(flatten(l), 0, 0, 1), {2}, tolerance(t));
    p.expect(slice_dim(flatten(l), 0, 2, 5), {1, 2, 3}, tolerance(t));
    Value u = p.b.cholesky(a, false);
    p.expect(slice_dim(flatten(u), 0, 0, 2), {2, 1}, tolerance(t));
    p.run();
  }
  Program p;
  Value a = p.in(DType::C64, {1, 1}, {4, 0});
  p.expect(p.b.cholesky(a, true), {2, 0}, 1e-6);
  p.run();
}

TEST(TriangularSolve, SidesAndTransposes) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::F64}) {
    double e = tolerance(t);
    Program p;
    Value l = p.in(t, {2, 2}, {2, 99, 1, 4});  // 99 is not read
    Value b = p.in(t, {2, 1}, {4, 10});
    p.expect(p.b.triangular_solve(l, b, true, true, false, "NO_TRANSPOSE"), {2, 2}, e);
    p.expect(p.b.triangular_solve(l, b, true, true, true, "NO_TRANSPOSE"), {4, 6}, e);
    p.expect(p.b.triangular_solve(l, b, true, true, false, "TRANSPOSE"), {0.75, 2.5}, e);
    Value row = p.in(t, {1, 2}, {4, 8});
    p.expect(p.b.triangular_solve(l, row, false, true, false, "NO_TRANSPOSE"), {1, 2}, e);
    Value u = p.in(t, {2, 2}, {2, 1, 99, 4});
    p.expect(p.b.triangular_solve(u, b, true, false, false, "NO_TRANSPOSE"), {0.75, 2.5}, e);
    p.run();
  }
  Program p;
  Value a = p.in(DType::C64, {1, 1}, {0, 2});
  Value b = p.in(DType::C64, {1, 1}, {2, 0});
  p.expect(p.b.triangular_solve(a, b, true, true, false, "ADJOINT"), {0, 1}, 1e-6);
  p.run();
}

TEST(Fft, Kinds) {
  SKIP_WITHOUT_PLUGIN();
  for (DType t : {DType::F32, DType::F64}) {
    if (lacks_operations(t)) continue;
    double e = 4 * tolerance(t);
    Program p;
    DType c = complex_dtype(t);
    Value x = p.in(c, {4}, {1, 0, 2, 0, 3, 0, 4, 0});
    Numbers spectrum = {10, 0, -2, 2, -2, 0, -2, -2};
    p.expect(p.b.fft(x, "FFT", {4}), spectrum, e);
    p.expect(p.b.fft(p.in(c, {4}, spectrum), "IFFT", {4}), {1, 0, 2, 0, 3, 0, 4, 0}, e);
    p.expect(p.b.fft(p.in(t, {1, 2, 3, 4}), "RFFT", {4}), {10, 0, -2, 2, -2, 0}, e);
    p.expect(p.b.fft(p.in(c, {3}, {10, 0, -2, 2, -2, 0}), "IRFFT", {4}), {1, 2, 3, 4}, e);
    // An odd length, and two dimensions.
    p.expect(p.b.fft(p.in(c, {2}, {6, 0, 0, 0}), "IRFFT", {3}), {2, 2, 2}, e);
    p.expect(p.b.fft(p.in(t, {2, 2}, {1, 2, 3, 4}), "RFFT", {2, 2}), {10, 0, -2, 0, -4, 0, 0, 0},
             e);
    p.run();
  }
}

TEST(CustomCall, Text) {
  Builder b;
  Value x = b.parameter({DType::F32, {2}});
  Type types[] = {{DType::F32, {2}}, {DType::S32, {}}};
  Values out = b.custom_call("target", {&x, 1}, types, "a\"b", 2);
  b.custom_call("ffi", {&x, 1}, types, "{n = 1 : i64}", 4);
  std::string text = b.finish(out, "m");
  EXPECT_NE(text.find("%1:2 = \"stablehlo.custom_call\"(%arg0) <{call_target_name = \"target\", "
                      "api_version = 2 : i32, backend_config = \"a\\22b\", has_side_effect = "
                      "false}> : (tensor<2xf32>) -> (tensor<2xf32>, tensor<i32>)"),
            std::string::npos);
  EXPECT_NE(text.find("api_version = 4 : i32, backend_config = {n = 1 : i64}"), std::string::npos);
}

TEST(CustomCall, Runs) {
  SKIP_WITHOUT_PLUGIN();
  Program p;
  Value x = p.in(DType::F32, {1, 4}, {1, 4, 2, 3});
  p.expect(p.b.optimization_barrier(x), {1, 4, 2, 3});
  // XLA's own, on every platform: eigenvectors and eigenvalues of symmetric matrices.
  Value a = p.in(DType::F32, {2, 2}, {3, 0, 0, 2});
  Type types[] = {{DType::F32, {2, 2}}, {DType::F32, {2}}};
  Values out = p.b.custom_call("Eigh", {&a, 1}, types, "1,1,100,1e-6");
  p.expect(out[1], {2, 3}, 1e-6);
  p.expect(abs(out[0]), {0, 1, 1, 0}, 1e-6);
  p.run();
}

}  // namespace
}  // namespace torch_tpu::stablehlo
