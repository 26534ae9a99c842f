// The table of the special functions, and those of the error function's family.
#include <cmath>
#include <numbers>

#include "lowering/families.h"
#include "lowering/pointwise.h"
#include "lowering/special.h"

namespace torch_tpu::lowering {

Value exact_erf(Value x) {
  const double bound = x.dtype() == DType::F64 ? 5.95 : 3.93;
  return where(gt(abs(x), bound), sign(x), erf(x));
}

namespace {

Value erfc(Value x) { return chlo("chlo.erfc", x); }
Value erfinv(Value x) { return chlo("chlo.erf_inv", x); }

// ---- exp(x^2) erfc(x), by W. J. Cody's rational approximations (Math. Comp. 22, 1969)

constexpr double kCodyC[] = {2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594,
                             6.61191906371416295e1,  2.98635138197400131e2,  8.81952221241769090e2,
                             1.71204761263407058e3,  2.05107837782607147e3,  1.23033935479799725e3};
constexpr double kCodyD[] = {1.0,
                             1.57449261107098347e1,
                             1.17693950891312499e2,
                             5.37181101862009858e2,
                             1.62138957456669019e3,
                             3.29079923573345963e3,
                             4.36261909014324716e3,
                             3.43936767414372164e3,
                             1.23033935480374942e3};
constexpr double kCodyP[] = {1.63153871373020978e-2, 3.05326634961232344e-1,
                             3.60344899949804439e-1, 1.25781726111229246e-1,
                             1.60837851487422766e-2, 6.58749161529837803e-4};
constexpr double kCodyQ[] = {1.0,
                             2.56852019228982242,
                             1.87295284992346725,
                             5.27905102951428412e-1,
                             6.05183413124413191e-2,
                             2.33520497626869185e-3};

/// For x >= 0.
Value erfcx_positive(Value x) {
  const Value small = exp(x * x) * erfc(x);
  const Value middle = polynomial(x, kCodyC) / polynomial(x, kCodyD);
  const Value z = 1.0 / (x * x);
  const Value tail = z * polynomial(z, kCodyP) / polynomial(z, kCodyQ);
  const Value large = (std::numbers::inv_sqrtpi - tail) / x;
  return where(le(x, 0.46875), small, where(le(x, 4.0), middle, large));
}

Value erfcx(Value x) {
  const Value positive = erfcx_positive(abs(x));
  const Value twice = 2.0 * exp(x * x);
  // The last is exact long before exp overflows.
  const Value negative = where(lt(x, -6.1), twice, twice - positive);
  return where(lt(x, 0.0), where(lt(x, -26.7), INFINITY, negative), positive);
}

/// The logarithm of the normal distribution function.
Value log_ndtr(Value x) {
  const Value t = x * (1.0 / std::numbers::sqrt2);
  const Value tail = log(erfcx_positive(abs(t)) / 2.0) - t * t;
  return where(lt(x, -1.0), tail, log1p(erfc(t) * -0.5));
}

// The approximations of Cephes: Copyright (c) 2018, Steven Moshier, 3-clause BSD license.
constexpr double kNdtriP0[] = {-59.96335010141079, 98.00107541859997, -56.67628574690703,
                               13.931260938727968, -1.2391658386738125};
constexpr double kNdtriQ0[] = {1.0,
                               1.9544885833814176,
                               4.676279128988815,
                               86.36024213908905,
                               -225.46268785411937,
                               200.26021238006066,
                               -82.03722561683334,
                               15.90562251262117,
                               -1.1833162112133};
constexpr double kNdtriP1[] = {4.0554489230596245,  31.525109459989388,   57.16281922464213,
                               44.08050738932008,   14.684956192885803,   2.1866330685079025,
                               -0.1402560791713545, -0.03504246268278482, -0.0008574567851546854};
constexpr double kNdtriQ1[] = {1.0,
                               15.779988325646675,
                               45.39076351288792,
                               41.3172038254672,
                               15.04253856929075,
                               2.504649462083094,
                               -0.14218292285478779,
                               -0.03808064076915783,
                               -0.0009332594808954574};
constexpr double kNdtriP2[] = {
    3.2377489177694603,     6.915228890689842,      3.9388102529247444,
    1.3330346081580755,     0.20148538954917908,    0.012371663481782003,
    0.00030158155350823543, 2.6580697468673755e-06, 6.239745391849833e-09};
constexpr double kNdtriQ2[] = {1.0,
                               6.02427039364742,
                               3.6798356385616087,
                               1.3770209948908132,
                               0.21623699359449663,
                               0.013420400608854318,
                               0.00032801446468212774,
                               2.8924786474538068e-06,
                               6.790194080099813e-09};

/// The inverse of the normal distribution function.
Value ndtri(Value p) {
  constexpr double kSqrtTwoPi = 2.50662827463100050242;
  constexpr double kExpMinusTwo = 0.13533528323661269189;
  const Value upper = gt(p, 1.0 - kExpMinusTwo);
  const Value y = where(upper, 1.0 - p, p);
  const Value centered = y - 0.5;
  const Value z = centered * centered;
  const Value central =
      kSqrtTwoPi * (centered + centered * (z * polynomial(z, kNdtriP0) / polynomial(z, kNdtriQ0)));
  const Value x = sqrt(-2.0 * log(y));
  const Value inverse = 1.0 / x;
  const Value near = polynomial(inverse, kNdtriP1) / polynomial(inverse, kNdtriQ1);
  const Value far = polynomial(inverse, kNdtriP2) / polynomial(inverse, kNdtriQ2);
  const Value tail = x - log(x) / x - inverse * where(lt(x, 8.0), near, far);
  const Value value = where(gt(y, kExpMinusTwo), central, where(upper, tail, -tail));
  const Value outside = where(logical_or(lt(p, 0.0), gt(p, 1.0)), NAN, value);
  return where(eq(p, 0.0), -INFINITY, where(eq(p, 1.0), INFINITY, outside));
}

// ---- products with logarithms

Value entr(Value x) {
  const Value zero_or_less = where(eq(x, 0.0), 0.0, constant_like(x, -INFINITY));
  return where(is_nan(x), x, where(gt(x, 0.0), -x * log(x), zero_or_less));
}

/// x times a logarithm of y, which is 0 where x is 0, but for NaN.
Value times_log(Value x, Value y, Value logarithm) {
  return where(is_nan(y), NAN, where(eq(x, 0.0), 0.0, x * logarithm));
}

Value xlogy(Value x, Value y) { return times_log(x, y, log(y)); }
Value xlog1py(Value x, Value y) { return times_log(x, y, log1p(y)); }

// ---- with a static order

Values polygamma_of(Context& ctx) {
  const DType dtype = float_common(ctx);
  return {cast(polygamma(ctx.integer(0), operand(ctx, 1, dtype)), dtype)};
}

Values mvlgamma(Context& ctx) {
  const DType dtype = float_common(ctx);
  const Value x = operand(ctx, 0, dtype);
  const int64_t p = ctx.integer(1);
  const double pairs = static_cast<double>(p * (p - 1)) / 4.0;
  Value sum = constant_like(x, pairs * std::log(std::numbers::pi));
  for (int64_t i = 0; i < p; ++i) sum = sum + lgamma(x - 0.5 * static_cast<double>(i));
  return {cast(sum, dtype)};
}

}  // namespace

Table special_function_table() {
  return {
      {.name = "aten::erf", .lower = float_unary<exact_erf>},
      {.name = "aten::erfc", .lower = float_unary<erfc>},
      {.name = "aten::erfinv", .lower = float_unary<erfinv>},
      {.name = "aten::special_erfcx", .lower = float_unary<erfcx>},
      {.name = "aten::special_log_ndtr", .lower = float_unary<log_ndtr>},
      {.name = "aten::special_ndtri", .lower = float_unary<ndtri>},
      {.name = "aten::special_entr", .lower = float_unary<entr>},
      {.name = "aten::xlogy.Tensor", .lower = float_binary<xlogy>},
      {.name = "aten::special_xlog1py", .lower = float_binary<xlog1py>},
      {.name = "aten::lgamma", .lower = float_unary<lgamma>},
      {.name = "aten::digamma", .lower = float_unary<digamma>},
      {.name = "aten::polygamma", .lower = polygamma_of},
      {.name = "aten::mvlgamma", .lower = mvlgamma},
      {.name = "aten::special_zeta", .lower = float_binary<zeta>},
      {.name = "aten::igamma", .lower = float_binary<igamma>},
      {.name = "aten::igammac", .lower = float_binary<igammac>},
      {.name = "aten::i0", .lower = float_unary<i0>},
      {.name = "aten::special_i0e", .lower = float_unary<i0e>},
      {.name = "aten::special_i1", .lower = float_unary<i1>},
      {.name = "aten::special_i1e", .lower = float_unary<i1e>},
      {.name = "aten::special_modified_bessel_i0", .lower = float_unary<i0>},
      {.name = "aten::special_modified_bessel_i1", .lower = float_unary<i1>},
      {.name = "aten::special_modified_bessel_k0", .lower = float_unary<modified_bessel_k0>},
      {.name = "aten::special_modified_bessel_k1", .lower = float_unary<modified_bessel_k1>},
      {.name = "aten::special_scaled_modified_bessel_k0",
       .lower = float_unary<scaled_modified_bessel_k0>},
      {.name = "aten::special_scaled_modified_bessel_k1",
       .lower = float_unary<scaled_modified_bessel_k1>},
      {.name = "aten::special_bessel_j0", .lower = float_unary<bessel_j0>},
      {.name = "aten::special_bessel_j1", .lower = float_unary<bessel_j1>},
      {.name = "aten::special_bessel_y0", .lower = float_unary<bessel_y0>},
      {.name = "aten::special_bessel_y1", .lower = float_unary<bessel_y1>},
      {.name = "aten::special_spherical_bessel_j0", .lower = float_unary<spherical_bessel_j0>},
      {.name = "aten::special_airy_ai", .lower = float_unary<airy_ai>},
      {.name = "aten::special_chebyshev_polynomial_t", .lower = float_binary<chebyshev_t>},
      {.name = "aten::special_chebyshev_polynomial_u", .lower = float_binary<chebyshev_u>},
      {.name = "aten::special_chebyshev_polynomial_v", .lower = float_binary<chebyshev_v>},
      {.name = "aten::special_chebyshev_polynomial_w", .lower = float_binary<chebyshev_w>},
      {.name = "aten::special_shifted_chebyshev_polynomial_t",
       .lower = float_binary<shifted_chebyshev_t>},
      {.name = "aten::special_shifted_chebyshev_polynomial_u",
       .lower = float_binary<shifted_chebyshev_u>},
      {.name = "aten::special_shifted_chebyshev_polynomial_v",
       .lower = float_binary<shifted_chebyshev_v>},
      {.name = "aten::special_shifted_chebyshev_polynomial_w",
       .lower = float_binary<shifted_chebyshev_w>},
      {.name = "aten::special_hermite_polynomial_h", .lower = float_binary<hermite_h>},
      {.name = "aten::special_hermite_polynomial_he", .lower = float_binary<hermite_he>},
      {.name = "aten::special_laguerre_polynomial_l", .lower = float_binary<laguerre_l>},
      {.name = "aten::special_legendre_polynomial_p", .lower = float_binary<legendre_p>},
  };
}

}  // namespace torch_tpu::lowering
