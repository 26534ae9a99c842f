#include "stablehlo/math.h"

#include <algorithm>

#include "stablehlo/text.h"

namespace torch_tpu::stablehlo {
namespace {

Value apply(std::string_view op, Value a, Value b) {
  if (a.dims() == b.dims()) return a.builder().binary(op, a, b);  // also tells of unlike dtypes
  Dims dims = broadcast_shapes(a.dims(), b.dims());
  return a.builder().binary(op, broadcast_to(a, dims), broadcast_to(b, dims));
}

Value compare(Compare direction, Value a, Value b) {
  if (a.dims() == b.dims()) return a.builder().compare(direction, a, b);
  Dims dims = broadcast_shapes(a.dims(), b.dims());
  return a.builder().compare(direction, broadcast_to(a, dims), broadcast_to(b, dims));
}

Value apply(std::string_view op, Value x) { return x.builder().unary(op, x); }

/// Rounding leaves integers and Pred as they are.
Value apply_rounding(std::string_view op, Value x) {
  return is_float(x.dtype()) || is_complex(x.dtype()) ? apply(op, x) : x;
}

using Init = Value (*)(Value x);

Value reduce_by(std::string_view op, Value x, const Dims& dims, bool keepdim, Init init) {
  if (dims.empty()) return x;
  Value reduced = x.builder().reduce(x, init(x), dims, op);
  return keepdim ? keep_dims(reduced, x.dims(), dims) : reduced;
}

Value zero(Value x) { return x.builder().constant_int(x.dtype(), 0); }
Value one(Value x) { return x.builder().constant_int(x.dtype(), 1); }
Value least(Value x) { return x.builder().lowest(x.dtype()); }
Value greatest(Value x) { return x.builder().highest(x.dtype()); }
Value all_ones(Value x) { return x.builder().constant_int(x.dtype(), -1); }

}  // namespace

Dims broadcast_shapes(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims out = longer;
  size_t shift = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& size = out[i + shift];
    if (size == 1) {
      size = shorter[i];
    } else if (shorter[i] != 1 && shorter[i] != size) {
      throw BuildError("broadcast: shapes " + to_string(a) + " and " + to_string(b) +
                       " do not fit");
    }
  }
  return out;
}

Value broadcast_to(Value x, const Dims& dims) {
  if (x.dims() == dims) return x;
  if (x.dims().size() > dims.size()) {
    throw BuildError("broadcast: " + to_string(x.type()) + " has more dimensions than " +
                     to_string(dims));
  }
  Dims map;
  auto shift = static_cast<int64_t>(dims.size()) - x.rank();
  for (int64_t i = 0; i < x.rank(); ++i) map.push_back(i + shift);
  return x.builder().broadcast_in_dim(x, dims, map);
}

Value constant_like(Value x, double value) {
  return x.builder().constant(x.dtype(), value, x.dims());
}
Value constant_int_like(Value x, int64_t value) {
  return x.builder().constant_int(x.dtype(), value, x.dims());
}
Value zeros_like(Value x) { return constant_int_like(x, 0); }
Value ones_like(Value x) { return constant_int_like(x, 1); }

Value operator+(Value a, Value b) { return apply("add", a, b); }
Value operator-(Value a, Value b) { return apply("subtract", a, b); }
Value operator*(Value a, Value b) { return apply("multiply", a, b); }
Value operator/(Value a, Value b) { return apply("divide", a, b); }
Value operator-(Value a) { return apply("negate", a); }
Value operator+(Value a, double b) { return a + constant_like(a, b); }
Value operator-(Value a, double b) { return a - constant_like(a, b); }
Value operator*(Value a, double b) { return a * constant_like(a, b); }
Value operator/(Value a, double b) { return a / constant_like(a, b); }
Value operator+(double a, Value b) { return constant_like(b, a) + b; }
Value operator-(double a, Value b) { return constant_like(b, a) - b; }
Value operator*(double a, Value b) { return constant_like(b, a) * b; }
Value operator/(double a, Value b) { return constant_like(b, a) / b; }

Value eq(Value a, Value b) { return compare(Compare::EQ, a, b); }
Value ne(Value a, Value b) { return compare(Compare::NE, a, b); }
Value lt(Value a, Value b) { return compare(Compare::LT, a, b); }
Value le(Value a, Value b) { return compare(Compare::LE, a, b); }
Value gt(Value a, Value b) { return compare(Compare::GT, a, b); }
Value ge(Value a, Value b) { return compare(Compare::GE, a, b); }
Value eq(Value a, double b) { return eq(a, constant_like(a, b)); }
Value ne(Value a, double b) { return ne(a, constant_like(a, b)); }
Value lt(Value a, double b) { return lt(a, constant_like(a, b)); }
Value le(Value a, double b) { return le(a, constant_like(a, b)); }
Value gt(Value a, double b) { return gt(a, constant_like(a, b)); }
Value ge(Value a, double b) { return ge(a, constant_like(a, b)); }

Value logical_and(Value a, Value b) { return apply("and", a, b); }
Value logical_or(Value a, Value b) { return apply("or", a, b); }
Value logical_xor(Value a, Value b) { return apply("xor", a, b); }
Value logical_not(Value a) { return apply("not", a); }

Value where(Value pred, Value a, Value b) {
  Dims dims = broadcast_shapes(pred.dims(), broadcast_shapes(a.dims(), b.dims()));
  Value condition = pred.rank() == 0 ? pred : broadcast_to(pred, dims);
  return pred.builder().select(condition, broadcast_to(a, dims), broadcast_to(b, dims));
}

Value where(Value pred, Value a, double b) {
  return where(pred, a, a.builder().constant(a.dtype(), b));
}

Value where(Value pred, double a, Value b) {
  return where(pred, b.builder().constant(b.dtype(), a), b);
}

Value maximum(Value a, Value b) { return apply("maximum", a, b); }
Value minimum(Value a, Value b) { return apply("minimum", a, b); }
Value pow(Value a, Value b) { return apply("power", a, b); }
Value remainder(Value a, Value b) { return apply("remainder", a, b); }
Value atan2(Value a, Value b) { return apply("atan2", a, b); }
Value exp(Value x) { return apply("exponential", x); }
Value expm1(Value x) { return apply("exponential_minus_one", x); }
Value log(Value x) { return apply("log", x); }
Value log1p(Value x) { return apply("log_plus_one", x); }
Value sqrt(Value x) { return apply("sqrt", x); }
Value rsqrt(Value x) { return apply("rsqrt", x); }
Value tanh(Value x) { return apply("tanh", x); }
Value sin(Value x) { return apply("sine", x); }
Value cos(Value x) { return apply("cosine", x); }
Value tan(Value x) { return apply("tan", x); }
Value sigmoid(Value x) { return apply("logistic", x); }

Value abs(Value x) {
  bool never_negative = x.dtype() == DType::Pred || is_unsigned_int(x.dtype());
  return never_negative ? x : apply("abs", x);
}

Value sign(Value x) {
  // stablehlo.sign takes no unsigned dtype.
  if (is_unsigned_int(x.dtype())) return convert(ne(x, zeros_like(x)), x.dtype());
  return x.dtype() == DType::Pred ? x : apply("sign", x);
}

Value floor(Value x) { return apply_rounding("floor", x); }
Value ceil(Value x) { return apply_rounding("ceil", x); }
Value round_even(Value x) { return apply_rounding("round_nearest_even", x); }
Value erf(Value x) { return apply("chlo.erf", x); }

Value is_nan(Value x) {
  bool can_be = is_float(x.dtype()) || is_complex(x.dtype());
  return can_be ? ne(x, x) : x.builder().constant(DType::Pred, 0, x.dims());
}

Value convert(Value x, DType dtype) { return x.builder().convert(x, dtype); }

Value reshape(Value x, const Dims& dims) { return x.builder().reshape(x, dims); }
Value transpose(Value x, const Dims& permutation) { return x.builder().transpose(x, permutation); }
Value flatten(Value x) { return reshape(x, {x.numel()}); }

Value unsqueeze(Value x, int64_t dim) {
  Dims dims = x.dims();
  dims.insert(dims.begin() + wrap_dim(dim, x.rank() + 1), 1);
  return reshape(x, dims);
}

Value squeeze(Value x, int64_t dim) {
  Dims dims = x.dims();
  int64_t at = wrap_dim(dim, x.rank());
  if (dims.empty() || dims[static_cast<size_t>(at)] != 1) return x;  // as in PyTorch
  dims.erase(dims.begin() + at);
  return reshape(x, dims);
}

Value swap_last(Value x) {
  if (x.rank() < 2) {
    throw BuildError("swap_last: " + to_string(x.type()) + " has less than 2 dimensions");
  }
  Dims permutation = all_dims(x);
  std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
  return transpose(x, permutation);
}

Value slice_dim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride) {
  auto at = static_cast<size_t>(wrap_dim(dim, x.rank()));
  Dims starts(x.dims().size(), 0);
  Dims limits = x.dims();
  Dims strides(x.dims().size(), 1);
  if (limits.empty()) throw BuildError("slice_dim: " + to_string(x.type()) + " has no dimension");
  starts[at] = start;
  limits[at] = limit;
  strides[at] = stride;
  return x.builder().slice(x, starts, limits, strides);
}

Value iota_like(Value x, int64_t dim, DType dtype) {
  return x.builder().iota({dtype, x.dims()}, wrap_dim(dim, x.rank()));
}

Value reduce_sum(Value x, const Dims& dims, bool keepdim) {
  return reduce_by("add", x, dims, keepdim, zero);
}
Value reduce_prod(Value x, const Dims& dims, bool keepdim) {
  return reduce_by("multiply", x, dims, keepdim, one);
}
Value reduce_max(Value x, const Dims& dims, bool keepdim) {
  return reduce_by("maximum", x, dims, keepdim, least);
}
Value reduce_min(Value x, const Dims& dims, bool keepdim) {
  return reduce_by("minimum", x, dims, keepdim, greatest);
}
Value reduce_and(Value x, const Dims& dims, bool keepdim) {
  return reduce_by("and", x, dims, keepdim, all_ones);
}
Value reduce_or(Value x, const Dims& dims, bool keepdim) {
  return reduce_by("or", x, dims, keepdim, zero);
}

Value keep_dims(Value reduced, const Dims& original, const Dims& dims) {
  Dims kept = original;
  for (int64_t d : dims) kept.at(static_cast<size_t>(d)) = 1;
  return reshape(reduced, kept);
}

Dims all_dims(Value x) {
  Dims out;
  for (int64_t d = 0; d < x.rank(); ++d) out.push_back(d);
  return out;
}

int64_t wrap_dim(int64_t d, int64_t rank) {
  int64_t limit = std::max<int64_t>(rank, 1);
  if (d < -limit || d >= limit) {
    throw BuildError("dimension " + std::to_string(d) + " is out of range for " +
                     std::to_string(rank) + " dimensions");
  }
  return d < 0 ? d + limit : d;
}

}  // namespace torch_tpu::stablehlo
