// The exponential of matrices.
#include <limits>

#include "lowering/cast.h"
#include "lowering/families.h"
#include "lowering/linalg.h"

namespace torch_tpu::lowering {
namespace {

/// The Taylor polynomial of `terms` (a multiple of 4) terms, by Horner's rule in the fourth power.
Value taylor(Value x, int terms) {
  const Value unit = identity(x.builder(), x.dtype(), {x.dim(0)}, x.dim(1));
  const Value square = matrix_product(x, x), cube = matrix_product(square, x);
  const Value fourth = matrix_product(square, square);
  Value sum;
  double factorial[20] = {1};
  for (int i = 1; i < terms; ++i) factorial[i] = factorial[i - 1] * i;
  for (int i = terms - 4; i >= 0; i -= 4) {
    const Value block = unit * (1 / factorial[i]) + x * (1 / factorial[i + 1]) +
                        square * (1 / factorial[i + 2]) + cube * (1 / factorial[i + 3]);
    sum = sum ? matrix_product(sum, fourth) + block : block;
  }
  return sum;
}

/// The least k >= 0 with norm / 2^k <= 1, [batch, 1, 1] as whole floats.
Value halvings(Value norm) {
  const double most = norm.dtype() == DType::F64 ? 1024 : 128;
  const Value above = stablehlo::ceil(log(norm) / 0.69314718055994530942);
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
  const int terms = norm.dtype() == DType::F64 ? 20 : 12;
  const Value start = taylor(x * down * rest, terms);
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
