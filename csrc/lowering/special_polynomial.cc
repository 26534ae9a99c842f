// Orthogonal polynomials by their three-term recurrences, with a degree for each element.
#include <cmath>

#include "lowering/pointwise.h"
#include "lowering/special.h"

namespace torch_tpu::lowering {

using stablehlo::Builder;

namespace {

/// The next polynomial from degree k, the point x and the two before (p, q).
using Step = Value (*)(Value k, Value x, Value p, Value q);

/// The polynomial of degree n: 1 at 0, `first` at 1, then by `step`. Elements without `use` may get
/// anything, and cost no rounds. As in PyTorch an element stops at NaN.
Value recur(Value x, Value n, Value first, Value use, Step step) {
  const Value one = ones_like(x);
  const Value degree = where(use, n, zeros_like(n));
  const auto active = [](std::span<const Value> v) {
    return logical_and(lt(v[0], v[4]), eq(v[3], v[3]));
  };
  // {k, x, p, q, n}
  const Value start = n.builder().constant_int(DType::S64, 1);
  const Values v = x.builder().while_loop(
      std::vector<Value>{start, x, one, first, degree},
      [&](Builder&, std::span<const Value> v) -> Values { return {any(active(v))}; },
      [&](Builder& b, std::span<const Value> v) -> Values {
        const Value more = active(v);
        const Value k = broadcast_to(convert(v[0], v[1].dtype()), v[1].dims());
        const Value next = step(k, v[1], v[2], v[3]);
        const Value k_next = b.binary("add", v[0], b.constant_int(DType::S64, 1));
        return {k_next, v[1], where(more, v[3], v[2]), where(more, next, v[3]), v[4]};
      });
  const Value zero = zeros_like(n);
  return where(lt(n, zero), 0.0, where(eq(n, zero), one, v[3]));
}

Value degree_of(Value n) { return cast(n, DType::S64); }

enum class Kind { T, U, V, W };

/// Chebyshev's polynomials share the recurrence 2 y q - p, and are trigonometric functions of
/// acos(y) inside (-1, 1), which serve there above degree `closed_above`.
Value chebyshev(Kind kind, Value y, Value degree, double closed_above) {
  const Value n = degree_of(degree);
  const Value real_n = convert(n, y.dtype());
  const Value twice = y + y;
  const Value one = ones_like(y);
  const Value even = eq(remainder(n, constant_int_like(n, 2)), zeros_like(n));
  const Value sign = where(even, one, -one);
  const Value theta = chlo("chlo.acos", y);
  const Value wide = 2.0 * real_n + 1.0, next = real_n + 1.0;
  Value first, closed, at_one, at_minus_one;
  switch (kind) {
    case Kind::T:
      first = y;
      closed = cos(real_n * theta);
      at_one = one;
      at_minus_one = sign;
      break;
    case Kind::U: {
      first = twice;
      const Value sine = sin(theta);
      closed = where(ne(sine, 0.0), sin(next * theta) / sine, next * cos(next * theta) / y);
      at_one = next;
      at_minus_one = sign * next;
      break;
    }
    case Kind::V: {
      first = twice - 1.0;
      const Value limit = sign * wide;
      const Value inner = cos((real_n + 0.5) * theta) / cos(theta / 2.0);
      closed = where(ne(sin(theta / 2.0), 1.0), inner, limit);
      at_one = one;
      at_minus_one = limit;
      break;
    }
    case Kind::W: {
      first = twice + 1.0;
      const Value limit = where(gt(y, 0.0), wide, sign);
      const Value inner = sin((real_n + 0.5) * theta) / sin(theta / 2.0);
      closed = where(ne(cos(theta / 2.0), 1.0), inner, limit);
      at_one = wide;
      at_minus_one = sign;
      break;
    }
  }
  const Value is_closed = logical_and(gt(n, closed_above), lt(abs(y), 1.0));
  const Value edge = eq(abs(y), 1.0);
  const Value use = logical_not(logical_or(is_closed, edge));
  const Value by_recurrence =
      recur(twice, n, first, use, [](Value, Value x, Value p, Value q) { return x * q - p; });
  const Value at_edge = where(gt(y, 0.0), at_one, at_minus_one);
  const Value value = where(edge, at_edge, where(is_closed, closed, by_recurrence));
  return where(lt(n, 0.0), 0.0, value);
}

Value shift(Value x) { return x + x - 1.0; }

/// PyTorch gives up above a degree whose values leave the range of the dtype.
Value hermite(Value x, Value degree, Value first, Step step) {
  const Value n = degree_of(degree);
  const double limit = x.dtype() == DType::F64 ? 512 : 128;
  const Value within = le(n, limit);
  return where(within, recur(x, n, first, within, step), NAN);
}

}  // namespace

Value chebyshev_t(Value x, Value n) { return chebyshev(Kind::T, x, n, 6); }
Value chebyshev_u(Value x, Value n) { return chebyshev(Kind::U, x, n, 8); }
Value chebyshev_v(Value x, Value n) { return chebyshev(Kind::V, x, n, 8); }
Value chebyshev_w(Value x, Value n) { return chebyshev(Kind::W, x, n, 8); }
Value shifted_chebyshev_t(Value x, Value n) { return chebyshev(Kind::T, shift(x), n, 6); }
Value shifted_chebyshev_u(Value x, Value n) { return chebyshev(Kind::U, shift(x), n, 6); }
Value shifted_chebyshev_v(Value x, Value n) { return chebyshev(Kind::V, shift(x), n, 6); }
Value shifted_chebyshev_w(Value x, Value n) { return chebyshev(Kind::W, shift(x), n, 4); }

Value hermite_h(Value x, Value n) {
  return hermite(x, n, x + x,
                 [](Value k, Value x, Value p, Value q) { return (x + x) * q - 2.0 * k * p; });
}

Value hermite_he(Value x, Value n) {
  return hermite(x, n, x, [](Value k, Value x, Value p, Value q) { return x * q - k * p; });
}

Value laguerre_l(Value x, Value degree) {
  const Value n = degree_of(degree);
  const Value at_zero = eq(x, 0.0);
  const Value value =
      recur(x, n, 1.0 - x, logical_not(at_zero), [](Value k, Value x, Value p, Value q) {
        return ((k + k + (1.0 - x)) * q - k * p) / (k + 1.0);
      });
  return where(logical_and(at_zero, ge(n, 0.0)), 1.0, value);
}

Value legendre_p(Value x, Value degree) {
  const Value n = degree_of(degree);
  const Value edge = eq(abs(x), 1.0);
  const Value value = recur(x, n, x, logical_not(edge), [](Value k, Value x, Value p, Value q) {
    return ((k + k + 1.0) * x * q - k * p) / (k + 1.0);
  });
  const Value one = ones_like(x);
  const Value even = eq(remainder(n, constant_int_like(n, 2)), zeros_like(n));
  const Value at_edge = where(logical_or(gt(x, 0.0), even), one, -one);
  return where(logical_and(edge, ge(n, 0.0)), at_edge, value);
}

}  // namespace torch_tpu::lowering
