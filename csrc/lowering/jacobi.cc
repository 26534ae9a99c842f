// Eigenvalues of Hermitian matrices and singular values, by one-sided Jacobi rotations: pairs of
// columns are made orthogonal until all are. Half of the columns meet the other half in each round,
// and all pairs of a round are rotated at once.
#include <algorithm>
#include <cmath>
#include <limits>

#include "lowering/cast.h"
#include "lowering/families.h"
#include "lowering/gather_scatter.h"
#include "lowering/householder.h"
#include "lowering/sort.h"

namespace torch_tpu::lowering {
namespace {

/// Enough for every matrix: about 10 sweeps are needed.
constexpr int64_t kMostSweeps = 40;
/// As LAPACK says that a matrix has NaN or infinity in it.
constexpr double kNotFinite = -4;

Value keep(Value pred, Value x) { return where(pred, x, zeros_like(x)); }
Value real_part(Value x) { return is_complex(x.dtype()) ? x.builder().real(x) : x; }
Value sum_rows(Value x) { return reduce_sum(x, {1}, true); }
Value square_size(Value x) {
  if (!is_complex(x.dtype())) return x * x;
  const Value re = x.builder().real(x), im = x.builder().imag(x);
  return re * re + im * im;
}

double epsilon(DType dtype) {
  return stablehlo::real_dtype(dtype) == DType::F64 ? std::numeric_limits<double>::epsilon()
                                                    : std::numeric_limits<float>::epsilon();
}

/// Smaller column norms are 0 for the rotations: their squares are not numbers of full precision.
double least_norm(DType dtype) {
  return stablehlo::real_dtype(dtype) == DType::F64 ? 1e-140 : 1e-15;
}

/// A factor [batch, 1, 1] that keeps squares and fourth powers of a matrix in range: 1 where it is
/// in range already, so that most matrices are not rounded.
Value range_of(Value x) {
  const Value largest = reduce_max(abs(x), {1, 2}, true);
  const Value fits = logical_or(logical_and(ge(largest, 1e-3), le(largest, 1e3)),
                                eq(largest, zeros_like(largest)));
  return where(fits, ones_like(largest), largest);
}

/// The columns of a matrix as two halves, the pairs of a round.
struct Pairs {
  Value left, right;
};

struct Rotation {
  Value sine;  // [batch, 1, pairs], in the dtype of the columns, as all but `matters`
  Value half_tangent;
  Value phase;
  Value matters;  // Pred: the pair was not orthogonal to what rounding leaves
};

/// The rotation that makes each pair orthogonal, judged by the first `rows` rows.
Rotation rotation_of(const Pairs& pairs, int64_t rows) {
  const Value l = slice_dim(pairs.left, 1, 0, rows), r = slice_dim(pairs.right, 1, 0, rows);
  const DType dtype = l.dtype();
  const Value a = sqrt(sum_rows(square_size(l))), d = sqrt(sum_rows(square_size(r)));
  const Value c = sum_rows(conjugate(l) * r), size = abs(c);
  // What rounding makes of an inner product decides when the rounds end; what can be corrected
  // until then is.
  const double noise = epsilon(dtype) * std::sqrt(static_cast<double>(std::max<int64_t>(rows, 4)));
  const Value counts = gt(minimum(a, d), least_norm(dtype)), product = a * d;
  const Value rotates = logical_and(counts, gt(size, product * (epsilon(dtype) / 2)));
  const Value divisor = where(rotates, size, ones_like(size));
  const Value zeta = (d - a) * (d + a) / (divisor * 2.0);
  const Value root = abs(zeta) + sqrt(zeta * zeta + 1.0);
  const Value tangent = keep(rotates, where(lt(zeta, zeros_like(zeta)), -1.0 / root, 1.0 / root));
  const Value cosine = 1.0 / sqrt(tangent * tangent + 1.0), sine = tangent * cosine;
  const Value phase = where(rotates, c / cast(divisor, dtype), ones_like(c));
  return {cast(sine, dtype), cast(sine / (cosine + 1.0), dtype), phase,
          logical_and(rotates, gt(size, product * noise))};
}

/// Without the cosine itself, whose rounding would make the columns longer with each rotation.
Pairs rotate(const Pairs& p, const Rotation& r) {
  const auto spread = [&](Value x) { return broadcast_to(x, p.left.dims()); };
  const Value sine = spread(r.sine), half = spread(r.half_tangent);
  return {p.left - sine * (spread(conjugate(r.phase)) * p.right + half * p.left),
          p.right + sine * (spread(r.phase) * p.left - half * p.right)};
}

/// The pairs of the next round, as in a tournament: the first column stays, all others move on by
/// one seat.
Pairs next_round(const Pairs& p) {
  const int64_t count = p.left.dim(2);
  if (count == 1) return p;
  Builder& b = p.left.builder();
  const auto part = [&](Value x, int64_t from, int64_t to) { return slice_dim(x, 2, from, to); };
  return {
      b.concatenate(Values{part(p.left, 0, 1), part(p.right, 0, 1), part(p.left, 1, count - 1)}, 2),
      b.concatenate(Values{part(p.right, 1, count), part(p.left, count - 1, count)}, 2)};
}

struct Orthogonal {
  Value columns;    // [batch, rows, n], in any order
  Value converged;  // [batch] Pred
};

/// Rotates the columns of x [batch, rows, n] (n even) until their first `measured` rows are
/// orthogonal.
Orthogonal orthogonalize(Value x, int64_t measured) {
  Builder& b = x.builder();
  const int64_t batch = x.dim(0), n = x.dim(2), rounds = n - 1;
  const Value zero = b.constant_int(DType::S32, 0);
  // The last round in which a pair of the matrix was rotated.
  const Value last = b.zeros({DType::S32, {batch}});
  const auto idle = [rounds](Value round, Value since) {
    return ge(broadcast_to(round, since.dims()) - since, static_cast<double>(rounds));
  };
  const Values inits{zero, last, slice_dim(x, 2, 0, n / 2), slice_dim(x, 2, n / 2, n)};
  const Values out = b.while_loop(
      inits,
      [&](Builder& inner, std::span<const Value> s) -> Values {
        const Value busy = reduce_or(logical_not(idle(s[0], s[1])), {0});
        return {logical_and(busy, lt(s[0], inner.constant_int(DType::S32, rounds * kMostSweeps)))};
      },
      [&](Builder&, std::span<const Value> s) -> Values {
        const Pairs pairs{s[2], s[3]};
        const Rotation rotation = rotation_of(pairs, measured);
        const Pairs next = next_round(rotate(pairs, rotation));
        const Value round = s[0] + 1.0;
        const Value any = reduce_or(rotation.matters, {1, 2});
        return {round, where(any, broadcast_to(round, s[1].dims()), s[1]), next.left, next.right};
      });
  return {b.concatenate(Values{out[2], out[3]}, 2), idle(out[0], out[1])};
}

/// Zeros appended, so that the numbers of rows and columns are these.
Value pad_matrix(Value x, int64_t rows, int64_t columns) {
  if (x.dim(1) == rows && x.dim(2) == columns) return x;
  const Value zero = x.builder().zeros({x.dtype(), {}});
  return x.builder().pad(x, zero, {0, 0, 0}, {0, rows - x.dim(1), columns - x.dim(2)});
}

int64_t even(int64_t n) { return n + n % 2; }

/// Columns of [batch, m, n] in the order [batch, n'].
Value order_columns(Value x, Value order) {
  const Dims dims{x.dim(0), x.dim(1), order.dim(1)};
  return gather_along(x, 2, broadcast_to(unsqueeze(order, 1), dims));
}

/// x (3 - x^H x) / 2: columns that are almost orthonormal become so.
Value polish(Value x) {
  const Value unit = identity(x.builder(), x.dtype(), {x.dim(0)}, x.dim(2));
  return matrix_product(x, unit * 1.5 - matrix_product(adjoint(x), x) * 0.5);
}

/// [batch, n] from [batch, 1, n].
Value as_vector(Value x) { return squeeze(x, 1); }

Value not_finite(Value x) {
  const Value size = abs(x);
  return reduce_or(logical_not(x.builder().is_finite(size)), {1, 2});
}

// ---- eigh

struct Eigen {
  Value values, vectors, info;
};

/// The matrix of which only one triangle is given.
Value hermitian(Value a, bool upper) {
  const Value triangle = upper ? adjoint(upper_triangle(a)) : lower_triangle(a);
  const Value below = lower_triangle(triangle, -1);
  const Value unit = identity(a.builder(), a.dtype(), {a.dim(0)}, a.dim(1));
  const Value diagonal = cast(real_part(triangle), a.dtype());
  return where(ne(unit, zeros_like(unit)), diagonal, below + adjoint(below));
}

/// A number [batch, 1, 1] that is a little more than the size of every eigenvalue, and at most
/// n^(1/8) times as much.
Value spectral_bound(Value a) {
  const Value square = matrix_product(a, a);
  const Value fourth = matrix_product(square, square);
  const Value norm = sqrt(reduce_sum(square_size(fourth), {1, 2}, true));
  return sqrt(sqrt(norm)) * 1.25;
}

/// Eigenvalues in ascending order. With a multiple of the identity added, so that all eigenvalues
/// are positive and far from 0, the rotated columns are eigenvectors times eigenvalues.
Eigen eigen_decompose(Value a, bool wants_vectors) {
  Builder& b = a.builder();
  const int64_t n = a.dim(1), padded = even(n);
  const Value scale = range_of(a);
  const Value h = a / broadcast_to(cast(scale, a.dtype()), a.dims());
  const Value bound = spectral_bound(h);
  const Value shift = where(eq(bound, zeros_like(bound)), ones_like(bound), bound);
  const Value unit = identity(b, a.dtype(), {a.dim(0)}, n);
  const Orthogonal out = orthogonalize(
      pad_matrix(h + unit * broadcast_to(cast(shift, a.dtype()), a.dims()), n, padded), n);
  const Value norms = sqrt(sum_rows(square_size(out.columns)));
  const Value absent = eq(norms, zeros_like(norms));
  const Value lengths = where(absent, ones_like(norms), norms);
  const Value vectors = out.columns / broadcast_to(cast(lengths, a.dtype()), out.columns.dims());
  // What the vectors say about the matrix itself is more precise than the norms.
  const Value quotients = sum_rows(real_part(conjugate(vectors) * matrix_product(h, vectors)));
  const Value infinite = b.highest(quotients.dtype(), quotients.dims());
  const Sorted sorted = sort_along(as_vector(where(absent, infinite, quotients)), 1, false);
  const Value values = slice_dim(sorted.values, 1, 0, n) * squeeze(scale, 2);
  // LAPACK's number of off-diagonal elements that did not become zero; it sees no NaN in 2 x 2.
  const Value failed = logical_or(not_finite(a), logical_not(out.converged));
  const Value count = b.constant_int(DType::S32, n > 2 ? n - 1 : 0, {a.dim(0)});
  const Value info = keep(failed, count);
  if (!wants_vectors) return {values, {}, info};
  return {values, polish(order_columns(vectors, slice_dim(sorted.positions, 1, 0, n))), info};
}

Value shaped(Context& ctx, Value x, size_t k) { return reshape(x, ctx.out(k).dims); }

Values zero_results(Context& ctx) {
  Values out;
  for (size_t k = 0; k < ctx.num_outs(); ++k) out.push_back(ctx.b.zeros(ctx.out(k)));
  return out;
}

/// (A, UPLO, compute_v) -> eigenvalues, eigenvectors, info
Values eigh(Context& ctx) {
  if (ctx.tensor(0).numel() == 0) return zero_results(ctx);
  const bool upper = ctx.text(1) == "U" || ctx.text(1) == "u", wants_vectors = ctx.flag(2);
  const Value a = hermitian(flatten_batch(ctx.tensor(0)), upper);
  const Eigen e = eigen_decompose(a, wants_vectors);
  return {shaped(ctx, e.values, 0),
          wants_vectors ? shaped(ctx, e.vectors, 1) : ctx.b.zeros(ctx.out(1)),
          shaped(ctx, e.info, 2)};
}

// ---- svd

struct Singular {
  Value u, s, v, info;  // A = U S V^H; U may have more columns than S
};

/// The unit vectors of columns that are orthogonal, the greatest first; where a column is 0, any
/// that complete the others.
Value complete_basis(Value columns, Value norms) {
  const Value lengths = where(eq(norms, zeros_like(norms)), ones_like(norms), norms);
  const Value unit =
      columns / broadcast_to(cast(unsqueeze(lengths, 1), columns.dtype()), columns.dims());
  const Reflections q = qr_decompose(unit);
  // R is diagonal: the signs that LAPACK's rule gave.
  const Value r = diagonal(q.factors), size = abs(r);
  const Value none = eq(size, zeros_like(size));
  const Value phase =
      where(none, ones_like(r), r / cast(where(none, ones_like(size), size), r.dtype()));
  const Value basis = orthogonal_factor(q, columns.dim(2));
  return basis * broadcast_to(unsqueeze(phase, 1), basis.dims());
}

/// Of a square matrix.
Singular square_svd(Value a, bool wants_vectors) {
  Builder& b = a.builder();
  const int64_t n = a.dim(1), padded = even(n);
  const Value scale = range_of(a);
  Value x = pad_matrix(a / broadcast_to(cast(scale, a.dtype()), a.dims()), n, padded);
  if (wants_vectors) {  // they are rotated too
    x = b.concatenate(Values{x, identity(b, a.dtype(), {a.dim(0)}, padded)}, 1);
  }
  const Orthogonal out = orthogonalize(x, n);
  const Value columns = slice_dim(out.columns, 1, 0, n);
  // Scaled by the greatest element: their squares may be too small for a number.
  const Value largest = reduce_max(abs(columns), {1}, true);
  const Value by = where(gt(largest, zeros_like(largest)), largest, ones_like(largest));
  const Value norms =
      by * sqrt(sum_rows(square_size(columns / broadcast_to(cast(by, a.dtype()), columns.dims()))));
  Value key = norms;
  if (wants_vectors && padded > n) {  // the column that was added comes last
    const Value added = abs(slice_dim(out.columns, 1, n + padded - 1, n + padded));
    key = where(gt(added, zeros_like(added)), constant_like(norms, -1), norms);
  }
  const Sorted sorted = sort_along(as_vector(key), 1, true);
  const Value s = slice_dim(sorted.values, 1, 0, n), order = slice_dim(sorted.positions, 1, 0, n);
  const Value count = b.constant_int(DType::S32, n, {a.dim(0)});
  Value info = where(out.converged, zeros_like(count), count);
  info = where(not_finite(a), constant_like(info, kNotFinite), info);
  Singular result{{}, s * squeeze(scale, 2), {}, info};
  if (wants_vectors) {
    result.u = complete_basis(order_columns(columns, order), s);
    result.v = polish(order_columns(slice_dim(out.columns, 1, n, 2 * n), order));
  }
  return result;
}

/// Of a matrix with no more columns than rows.
Singular tall_svd(Value a, bool full, bool wants_vectors) {
  const int64_t m = a.dim(1), n = a.dim(2);
  if (m == n) return square_svd(a, wants_vectors);
  const Reflections q = qr_decompose(a);
  Singular result = square_svd(triangular_factor(q, n), wants_vectors);
  result.info = where(not_finite(a), constant_like(result.info, kNotFinite), result.info);
  if (!wants_vectors) return result;
  Value u = pad_matrix(result.u, m, n);
  if (full) {
    const Value unit = identity(a.builder(), a.dtype(), {a.dim(0)}, m);
    u = a.builder().concatenate(Values{u, slice_dim(unit, 2, n, m)}, 2);
  }
  result.u = apply_reflections(q, u, false);
  return result;
}

/// Without any number there is a basis only: the identity.
Values empty_svd(Context& ctx) {
  Values out = zero_results(ctx);
  for (size_t k : {0, 2}) {
    const Type& type = ctx.out(k);
    if (type.numel() == 0) continue;
    out[k] =
        identity(ctx.b, type.dtype, Dims(type.dims.begin(), type.dims.end() - 2), type.dims.back());
  }
  return out;
}

/// (A, full_matrices, compute_uv, driver) -> U, S, Vh, info
Values svd(Context& ctx) {
  if (ctx.tensor(0).numel() == 0) return empty_svd(ctx);
  const Value a = flatten_batch(ctx.tensor(0));
  const bool wide = a.dim(1) < a.dim(2), wants_vectors = ctx.flag(2);
  const Singular r = tall_svd(wide ? adjoint(a) : a, ctx.flag(1), wants_vectors);
  const Value s = shaped(ctx, r.s, 1), info = shaped(ctx, r.info, 3);
  if (!wants_vectors) return {ctx.b.zeros(ctx.out(0)), s, ctx.b.zeros(ctx.out(2)), info};
  return {shaped(ctx, wide ? r.v : r.u, 0), s, shaped(ctx, adjoint(wide ? r.u : r.v), 2), info};
}

}  // namespace

Table jacobi_table() {
  return {
      {.name = "torch_tpu::eigh", .lower = eigh},
      {.name = "torch_tpu::svd", .lower = svd},
  };
}

}  // namespace torch_tpu::lowering
