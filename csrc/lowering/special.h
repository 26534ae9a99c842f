// The special functions of one and two values, for the table in special_function.cc. Arguments are
// F32 or F64.
#pragma once

#include "stablehlo/math.h"

namespace torch_tpu::lowering {

using stablehlo::Value;

// special_bessel.cc
Value i0(Value x);
Value i0e(Value x);
Value i1(Value x);
Value i1e(Value x);
Value modified_bessel_k0(Value x);
Value modified_bessel_k1(Value x);
Value scaled_modified_bessel_k0(Value x);
Value scaled_modified_bessel_k1(Value x);
Value bessel_j0(Value x);
Value bessel_j1(Value x);
Value bessel_y0(Value x);
Value bessel_y1(Value x);
Value spherical_bessel_j0(Value x);
Value airy_ai(Value x);

// special_gamma.cc
Value lgamma(Value x);
Value digamma(Value x);
/// The derivative of order n >= 0 of digamma.
Value polygamma(int64_t n, Value x);
/// Hurwitz zeta.
Value zeta(Value x, Value q);
/// Regularized incomplete gamma functions, lower and upper.
Value igamma(Value a, Value x);
Value igammac(Value a, Value x);

// special_polynomial.cc: of degree n, a value that is cut to an integer.
Value chebyshev_t(Value x, Value n);
Value chebyshev_u(Value x, Value n);
Value chebyshev_v(Value x, Value n);
Value chebyshev_w(Value x, Value n);
Value shifted_chebyshev_t(Value x, Value n);
Value shifted_chebyshev_u(Value x, Value n);
Value shifted_chebyshev_v(Value x, Value n);
Value shifted_chebyshev_w(Value x, Value n);
Value hermite_h(Value x, Value n);
Value hermite_he(Value x, Value n);
Value laguerre_l(Value x, Value n);
Value legendre_p(Value x, Value n);

}  // namespace torch_tpu::lowering
