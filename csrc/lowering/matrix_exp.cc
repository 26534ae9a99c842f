// The exponential of matrices.
#include <limits>

#include "lowering/cast.h"
#include "lowering/families.h"
#include "lowering/linalg.h"

namespace torch_tpu::lowering {
namespace {

constexpr int kTerms = 20;

/// The Taylor polynomial of kTerms (a multiple of 4) terms, by Horner's rule in the fourth power.
Value taylor(Value x) {
  const Value unit = identity(x.builder(), x.dtype(), {x.dim(0)}, x.dim(1));
  const Value square = matrix_product(x, x), cube = matrix_product(square, x);
  const Value fourth = matrix_product(square, square);
  Value sum;
  double factorial[kTerms] = {1};
  for (int i = 1; i < kTerms; ++i) factorial[i] = factorial[i - 1] * i;
  for (int i = kTerms - 4; i >= 0; i -= 4) {
    const Value block = unit * (1 / factorial[i]) + x * (1 / factorial[i + 1]) +
                        square * (1 / factorial[i + 2]) + cube * (1 / factorial[i + 3]);
    sum = sum ? matrix_product(sum, fourth) + block : block;
  }
  return sum;
}

/// The norm up to which the polynomial is exact to the last digit.
double greatest_norm(DType dtype) { return dtype == DType::F64 ? 1.0 : 3.0; }

/// The least k >= 0 with norm / 2^k <= greatest_norm, [batch, 1, 1] as whole floats. Each squaring
/// doubles the error, so there shall be few.
Value halvings(Value norm) {
  const double most = norm.dtype() == DType::F64 ? 1024 : 128;
  const Value above =
      stablehlo::ceil(log(norm / greatest_norm(norm.dtype())) / 0.69314718055994530942);
  const Value bounded = minimum(maximum(above, zeros_like(above)), constant_like(above, most));
  return where(ge(bounded, 0.0), bounded, zeros_like(bounded));  // NaN
}

/// (self): exp(x) = exp(x / 2^k)^(2^k)
Values matrix_exp(Context& ctx) {
  const Value x = flatten_batch(ctx.tensor(0));
  if (x.numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Value size = abs(x);
  const Value norm = reduce_max(reduce_sum(size, {1}, true), {2}, true);
  const Value count = halvings(norm);
  // In two steps, because 2^-k may not be a number where k is large.
  const Value first = stablehlo::floor(count * 0.5);
  const Value two = constant_like(count, 2.0);
  const Value down = cast(pow(two, -first), x.dtype()),
              rest = cast(pow(two, first - count), x.dtype());
  const Value start = taylor(x * down * rest);
  const Values inits{ctx.b.zeros({count.dtype(), {}}), start};
  const Value most = reduce_max(count, {0, 1, 2});
  const Values out = ctx.b.while_loop(
      inits, [&](Builder&, std::span<const Value> s) -> Values { return {lt(s[0], most)}; },
      [&](Builder&, std::span<const Value> s) -> Values {
        const Value active = lt(broadcast_to(s[0], count.dims()), count);
        return {s[0] + 1.0,
                where(broadcast_to(active, x.dims()), matrix_product(s[1], s[1]), s[1])};
      });
  return {reshape(out[1], ctx.out().dims)};
}

}  // namespace

Table matrix_exp_table() {
  return {
      {.name = "aten::linalg_matrix_exp", .lower = matrix_exp},
  };
}

}  // namespace torch_tpu::lowering
