// Derivatives of gamma and Dirichlet numbers by their parameters, by the approximations that
// PyTorch uses (ATen/native/Distributions.h), in F64 as there.
#include <cmath>

#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/pointwise.h"
#include "lowering/special.h"

namespace torch_tpu::lowering {
namespace {

Value zero_for_nan(Value x) { return where(is_nan(x), 0.0, x); }
Value square(Value x) { return x * x; }

// ---- gamma

/// A Taylor series, for x below 0.8.
Value gamma_series(Value alpha, Value x) {
  Value factor = stablehlo::ones_like(x), denominator = alpha;
  Value first = 1.0 / alpha, second = 1.0 / square(alpha);
  for (int i = 1; i <= 5; ++i) {
    factor = factor * (-x / static_cast<double>(i));
    denominator = denominator + 1.0;
    first = first + factor / denominator;
    second = second + factor / square(denominator);
  }
  const Value power = pow(x, alpha);
  const Value density = pow(x, alpha - 1.0) * exp(-x);
  const Value by_alpha = (log(x) - digamma(alpha)) * power * first - power * second;
  return zero_for_nan(-by_alpha / density);
}

/// Rice's saddle point expansion, for alpha above 8.
Value gamma_saddle_point(Value alpha, Value x) {
  const Value near_one = 1.0 + 24.0 * alpha * (1.0 + 12.0 * alpha);
  const Value near_two = 1440.0 * square(alpha) + 6.0 * x * (53.0 - 120.0 * x) -
                         65.0 * x * x / alpha + alpha * (107.0 + 3600.0 * x);
  const Value near_mean = near_one * near_two / (1244160.0 * square(square(alpha)));
  const Value root = sqrt(8.0 * alpha), distance = alpha - x;
  const Value term2 = root / distance;
  const Value base = x - alpha - alpha * log(x / alpha);
  const Value term3 = pow(base, stablehlo::constant_like(base, -1.5));
  const Value both = where(lt(x, alpha), term2 - term3, term2 + term3);
  const Value term1 = log(x / alpha) * both - sqrt(2.0 / alpha) * (alpha + x) / square(distance);
  const Value stirling = 1.0 + 1.0 / (12.0 * alpha) * (1.0 + 1.0 / (24.0 * alpha));
  const Value is_near = logical_and(le(0.9 * alpha, x), le(x, 1.1 * alpha));
  return where(is_near, near_mean, -stirling * x * term1 / root);
}

/// A rational function of two variables, elsewhere.
Value gamma_rational(Value alpha, Value x) {
  static constexpr double kUV[3][8] = {
      {0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1, 0.32668115, 0.10406089,
       0.0014179084},
      {0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465, 0.020070113, -0.0035938915,
       -0.00058392623},
      {0.040121004, -0.0065914022, -0.0026286047, -0.0013441777, 0.017050642, -0.0021309326,
       0.00085092367, -1.5247877e-07},
  };
  const Value u = log(x / alpha), v = log(alpha);
  const auto c = [&](int i) { return kUV[0][i] + u * (kUV[1][i] + u * kUV[2][i]); };
  const Value p = c(0) + v * (c(1) + v * (c(2) + v * c(3)));
  const Value q = c(4) + v * (c(5) + v * (c(6) + v * c(7)));
  return exp(p / q);
}

/// Arguments: self (alpha), output (x).
Values standard_gamma_gradient(Context& ctx) {
  const Dims& dims = ctx.out().dims;
  const Value alpha = broadcast_to(cast(ctx.tensor(0), DType::F64), dims);
  const Value x = broadcast_to(cast(ctx.tensor(1), DType::F64), dims);
  const Value other = where(gt(alpha, 8.0), gamma_saddle_point(alpha, x), gamma_rational(alpha, x));
  return {where(lt(x, 0.8), gamma_series(alpha, x), other)};
}

// ---- Dirichlet, by way of beta numbers

/// By alpha, for x near 0.
Value beta_series_alpha(Value x, Value alpha, Value beta) {
  const Value factor = digamma(alpha) - digamma(alpha + beta) - log(x);
  Value numerator = stablehlo::ones_like(x);
  Value series = 1.0 / alpha * (factor + 1.0 / alpha);
  for (int i = 1; i <= 10; ++i) {
    const auto k = static_cast<double>(i);
    numerator = numerator * ((k - beta) * x / k);
    const Value denominator = alpha + k;
    series = series + numerator / denominator * (factor + 1.0 / denominator);
  }
  return zero_for_nan(x * pow(1.0 - x, -beta) * series);
}

/// By beta, for x near 0.
Value beta_series_beta(Value x, Value alpha, Value beta) {
  const Value factor = digamma(alpha + beta) - digamma(beta);
  Value numerator = stablehlo::ones_like(x), betas = numerator, dbetas = stablehlo::zeros_like(x);
  Value series = factor / alpha;
  for (int i = 1; i <= 8; ++i) {
    const auto k = static_cast<double>(i);
    numerator = numerator * (-x / k);
    dbetas = dbetas * (beta - k) + betas;
    betas = betas * (beta - k);
    series = series + numerator / (alpha + k) * (dbetas + factor * betas);
  }
  return zero_for_nan(-pow(1.0 - x, 1.0 - beta) * series);
}

/// By alpha, next to the mean, where the expansion below divides by 0.
Value beta_near_mean(Value x, Value alpha, Value beta) {
  const Value total = alpha + beta, beta2 = square(beta);
  const Value p4 = 8.0 * (1.0 - x) * (135.0 * beta - 11.0);
  const Value p3 = (453.0 + 1620.0 * beta * (1.0 - x) - 455.0 * x) * beta + alpha * p4;
  const Value p2 = 3.0 * (59.0 + 180.0 * beta - 90.0 * x) * beta2 + alpha * p3;
  const Value p1 = (43.0 + 20.0 * (16.0 + 27.0 * beta) * x) * beta2 * beta + alpha * p2;
  const Value poly = 47.0 * x * beta2 * beta2 + alpha * p1;
  const Value numerator = (1.0 + 12.0 * alpha) * (1.0 + 12.0 * beta) / square(total);
  const Value denominator = 12960.0 * alpha * alpha * alpha * beta * beta * (1.0 + 12.0 * total);
  return numerator / (1.0 - x) * poly / denominator;
}

Value stirling(Value x) { return 1.0 + 1.0 / (12.0 * x) + 1.0 / (288.0 * x * x); }

/// By alpha, for large alpha and beta: Rice's saddle point expansion.
Value beta_saddle_point(Value x, Value alpha, Value beta) {
  const Value total = alpha + beta, mean = alpha / total;
  const Value deviation = sqrt(alpha * beta / (total + 1.0)) / total;
  const Value prefactor = -x / sqrt(2.0 * alpha * beta / total);
  const Value factor = stirling(alpha) * stirling(beta) / stirling(total);
  const Value numerator =
      2.0 * square(alpha) * (x - 1.0) + alpha * beta * (x - 1.0) - x * square(beta);
  const Value distance = alpha * (x - 1.0) + beta * x;
  const Value power = pow(total, stablehlo::constant_like(total, 1.5));
  const Value term1 = numerator / (sqrt(2.0 * alpha / beta) * power * square(distance));
  const Value term2 = 0.5 * log(alpha / (total * x));
  const Value term3 = sqrt(8.0 * alpha * beta / total) / distance;
  const Value base = beta * log(beta / (total * (1.0 - x))) + alpha * log(alpha / (total * x));
  const Value term4 = pow(base, stablehlo::constant_like(base, -1.5));
  const Value terms = term1 + term2 * (term3 + where(lt(x, mean), term4, -term4));
  const Value is_near = logical_and(le(mean - 0.1 * deviation, x), le(x, mean + 0.1 * deviation));
  return where(is_near, beta_near_mean(x, alpha, beta), factor * prefactor * terms);
}

/// By alpha, elsewhere: a rational correction of an approximation.
Value beta_rational(Value x, Value alpha, Value total) {
  static constexpr double kC[2][3][3][4] = {
      {{{1.003668233, -0.01061107488, -0.0657888334, 0.01201642863},
        {0.6336835991, -0.3557432599, 0.05486251648, -0.001465281033},
        {-0.03276231906, 0.004474107445, 0.002429354597, -0.0001557569013}},
       {{0.221950385, -0.3187676331, 0.01799915743, 0.01074823814},
        {-0.2951249643, 0.06219954479, 0.01535556598, 0.001550077057},
        {0.02155310298, 0.004170831599, 0.001292462449, 6.976601077e-05}},
       {{-0.05980841433, 0.008441916499, 0.01085618172, 0.002319392565},
        {0.02911413504, 0.01400243777, -0.002721828457, 0.000751041181},
        {0.005900514878, -0.001936558688, -9.495446725e-06, 5.385558597e-05}}},
      {{{1, -0.02924021934, -0.04438342661, 0.007285809825},
        {0.6357567472, -0.3473456711, 0.05454656494, -0.002407477521},
        {-0.03301322327, 0.004845219414, 0.00231480583, -0.0002307248149}},
       {{0.5925320577, -0.1757678135, 0.01505928619, 0.000564515273},
        {0.1014815858, -0.06589186703, 0.01272886114, -0.0007316646956},
        {-0.007258481865, 0.001096195486, 0.0003934994223, -4.12701925e-05}},
       {{0.06469649321, -0.0236701437, 0.002902096474, -5.896963079e-05},
        {0.001925008108, -0.002869809258, 0.0008000589141, -6.063713228e-05},
        {-0.0003477407336, 6.959756487e-05, 1.097287507e-05, -1.650964693e-06}}},
  };
  const Value u = log(x), a = log(alpha) - u, b = log(total) - a;
  const Value one = stablehlo::ones_like(x);
  const Value us[3] = {one, u, u * u}, as[3] = {one, a, a * a};
  Value sums[2] = {stablehlo::zeros_like(x), stablehlo::zeros_like(x)};
  for (int i = 0; i < 3; ++i) {
    for (int j = 0; j < 3; ++j) {
      for (int part = 0; part < 2; ++part) {
        const double* c = kC[part][i][j];
        sums[part] = sums[part] + us[i] * as[j] * (c[0] + b * (c[1] + b * (c[2] + b * c[3])));
      }
    }
  }
  return sums[0] / sums[1] * (x * (digamma(total) - digamma(alpha)) / (total - alpha));
}

/// Arguments: x, alpha, total.
Values dirichlet_gradient(Context& ctx) {
  const Dims& dims = ctx.out().dims;
  const auto argument = [&](size_t i) {
    return broadcast_to(cast(ctx.tensor(i), DType::F64), dims);
  };
  const Value x = argument(0), alpha = argument(1), total = argument(2);
  const Value beta = total - alpha, boundary = total * x * (1.0 - x);
  const Value near_zero = logical_and(le(x, 0.5), lt(boundary, 2.5));
  const Value near_one = logical_and(ge(x, 0.5), lt(boundary, 0.75));
  const Value large = logical_and(gt(alpha, 6.0), gt(beta, 6.0));
  const Value inner =
      where(large, beta_saddle_point(x, alpha, beta), beta_rational(x, alpha, total));
  const Value upper = where(near_one, -beta_series_beta(1.0 - x, beta, alpha), inner);
  return {where(near_zero, beta_series_alpha(x, alpha, beta), upper)};
}

}  // namespace

Table gamma_gradient_table() {
  return {
      {"aten::_standard_gamma_grad", standard_gamma_gradient},
      {"aten::_dirichlet_grad", dirichlet_gradient},
  };
}

}  // namespace torch_tpu::lowering
