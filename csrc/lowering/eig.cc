// Eigenvalues and eigenvectors of general matrices, in complex arithmetic: reduction to Hessenberg
// form by Householder reflections, then the QR algorithm with one shift, which makes it triangular.
#include <cmath>
#include <limits>

#include "lowering/cast.h"
#include "lowering/families.h"
#include "lowering/householder.h"

namespace torch_tpu::lowering {
namespace {

/// LAPACK's bound for the whole matrix is 30 steps for each eigenvalue.
constexpr int64_t kStepsEach = 30;
/// An eigenvalue that takes this many steps gets another shift.
constexpr double kPatience = 10;

Value keep(Value pred, Value x) { return where(pred, x, zeros_like(x)); }
Value index(Builder& b, int64_t i) { return b.constant_int(DType::S32, i); }
Value real(Value x) { return x.builder().real(x); }
Value imag(Value x) { return x.builder().imag(x); }

double epsilon(DType dtype) {
  return stablehlo::real_dtype(dtype) == DType::F64 ? std::numeric_limits<double>::epsilon()
                                                    : std::numeric_limits<float>::epsilon();
}

/// `count` rows (dim 1) or columns (dim 2) from a run-time start.
Value part(Value x, int64_t dim, Value start, int64_t count) {
  Values starts(3, index(x.builder(), 0));
  starts[dim] = start;
  Dims sizes = x.dims();
  sizes[dim] = count;
  return x.builder().dynamic_slice(x, starts, sizes);
}

Value write_part(Value x, int64_t dim, Value start, Value update) {
  Values starts(3, index(x.builder(), 0));
  starts[dim] = start;
  return x.builder().dynamic_update_slice(x, update, starts);
}

/// A = Q H Q^H, with H zero below its first subdiagonal.
struct Similar {
  Value h, q;
};

Similar hessenberg(Value a) {
  Builder& b = a.builder();
  const int64_t n = a.dim(1);
  const Value unit = identity(b, a.dtype(), {a.dim(0)}, n);
  if (n < 3) return {a, unit};
  const Values out = b.while_loop(
      Values{index(b, 0), a, unit},
      [n](Builder& inner, std::span<const Value> s) -> Values {
        return {lt(s[0], index(inner, n - 2))};
      },
      [](Builder&, std::span<const Value> s) -> Values {
        const Value column = part(s[1], 2, s[0], 1), row = s[0] + 1.0;
        const Reflection r = reflect(column, row);
        const Value v = r.v, vh = adjoint(v);
        const Value rows = iota_like(column, 1, DType::S32);
        const Value at_row = eq(rows, broadcast_to(row, rows.dims()));
        const Value below = gt(rows, broadcast_to(row, rows.dims()));
        const Value exact = where(at_row, broadcast_to(r.beta, column.dims()),
                                  where(below, zeros_like(column), column));
        const Value left = s[1] - conjugate(r.tau) * v * matrix_product(vh, s[1]);
        const Value both = left - r.tau * matrix_product(left, v) * vh;
        return {row, write_part(both, 2, s[0], exact), s[2] - r.tau * matrix_product(s[2], v) * vh};
      });
  return {out[1], out[2]};
}

/// The diagonal below (-1), on (0) or above (1) the main one, [batch, n], with a 0 at its end.
Value diagonal_of(Value h, int64_t k) {
  const int64_t n = h.dim(1);
  if (k == 0) return diagonal(h);
  const Value block = slice_dim(slice_dim(h, 1, k < 0 ? 1 : 0, k < 0 ? n : n - 1), 2, k < 0 ? 0 : 1,
                                k < 0 ? n - 1 : n);
  const Value zero = h.builder().zeros({h.dtype(), {h.dim(0), 1}});
  return h.builder().concatenate(Values{diagonal(block), zero}, 1);
}

/// Element `at` [batch] of [batch, n], as [batch, 1]; 0 if there is none.
Value pick(Value x, Value at) {
  const Value positions = iota_like(x, 1, DType::S32);
  return reduce_sum(keep(eq(positions, broadcast_to(unsqueeze(at, 1), x.dims())), x), {1}, true);
}

/// The block of H that is worked on: rows [first, last] have no 0 on the subdiagonal. last is 0
/// when the matrix is triangular.
struct Active {
  Value first, last;  // [batch] S32
};

Active active_block(Value below) {
  const Value coupled = ne(below, zeros_like(below));
  const Value positions = iota_like(below, 1, DType::S32);
  const Value after = positions + 1.0;
  const Value last = reduce_max(keep(coupled, after), {1});
  const Value inside = lt(positions, broadcast_to(unsqueeze(last, 1), positions.dims()));
  const Value first = reduce_max(keep(logical_and(logical_not(coupled), inside), after), {1});
  return {first, last};
}

/// H with those elements of the subdiagonal 0 that are rounding errors of the whole matrix. A finer
/// measure would not end: the steps themselves leave as much.
Value deflate(Value h) {
  const Value size = abs(h);
  const Value norm = sqrt(reduce_sum(size * size, {1, 2}));
  const Value below = abs(diagonal_of(h, -1));
  const Value negligible = le(below, unsqueeze(norm * (2 * epsilon(h.dtype())), 1));
  const Value rows = iota_like(h, 1, DType::S32), columns = iota_like(h, 2, DType::S32);
  const Value drop = broadcast_to(unsqueeze(negligible, 1), h.dims());
  return where(logical_and(eq(rows, columns + 1.0), drop), zeros_like(h), h);
}

/// The eigenvalue of the last 2 x 2 block that is nearer to its last element, [batch, 1].
Value shift_of(Value h, const Active& block, Value steps) {
  const Value before = block.last - 1.0;
  const Value d = diagonal_of(h, 0), below = pick(diagonal_of(h, -1), before);
  const Value corner = pick(d, block.last);
  const Value u = sqrt(pick(diagonal_of(h, 1), before)) * sqrt(below);
  const Value x = (pick(d, before) - corner) * 0.5;
  const Value root = sqrt(x * x + u * u);
  const Value same = ge(real(x) * real(root) + imag(x) * imag(root), 0.0);
  const Value sum = x + where(same, root, -root);
  const Value none = eq(abs(sum), 0.0);
  const Value wilkinson =
      corner - keep(logical_not(none), u * (u / where(none, ones_like(sum), sum)));
  const Value patience = constant_like(steps, kPatience);
  const Value stuck = eq(stablehlo::remainder(steps, patience), patience - 1.0);
  // Far from the eigenvalue: a shift that is almost exact may leave the same error again and again.
  const Value far = reduce_max(abs(diagonal_of(h, -1)), {1}, true) * 0.75;
  return where(unsqueeze(stuck, 1), corner + cast(far, h.dtype()), wilkinson);
}

struct Givens {
  Value cosine, sine;  // [batch, 1, 1]: [c s; -conj(s) c] (f, g)^T = (r, 0)^T
};

Givens givens(Value f, Value g, Value applies) {
  const Value fs = abs(f), gs = abs(g), size = maximum(fs, gs);
  const Value by = where(eq(size, 0.0), ones_like(size), size);
  const Value norm = by * sqrt((fs / by) * (fs / by) + (gs / by) * (gs / by));
  const Value used = logical_and(applies, gt(gs, zeros_like(gs)));
  const Value divisor = where(used, norm, ones_like(norm));
  const Value none = eq(fs, 0.0);
  const Value phase =
      where(none, ones_like(f), f / cast(where(none, ones_like(fs), fs), f.dtype()));
  const Value cosine = where(used, fs / divisor, ones_like(fs));
  return {cast(cosine, f.dtype()), keep(used, phase * conjugate(g) / cast(divisor, f.dtype()))};
}

/// The two rows of [batch, 2, n], or with `columns` the two columns of [batch, n, 2] by the
/// adjoint.
Value rotated(Value x, const Givens& g, bool columns) {
  const int64_t dim = columns ? 2 : 1;
  const Value a = slice_dim(x, dim, 0, 1), z = slice_dim(x, dim, 1, 2);
  const Value sine = columns ? conjugate(g.sine) : g.sine;
  return x.builder().concatenate(
      Values{g.cosine * a + sine * z, g.cosine * z - conjugate(sine) * a}, dim);
}

/// One step of the QR algorithm in the active block of each matrix: the rotation that the shift
/// asks for at the block's start, and those that bring the matrix back to Hessenberg form.
Similar chase(const Similar& s, const Active& block, Value shift) {
  Builder& b = s.h.builder();
  const int64_t batch = s.h.dim(0);
  const auto cube = [batch](Value x) { return reshape(x, {batch, 1, 1}); };
  const Value busy = gt(block.last, 0.0);
  const Value none = constant_int_like(block.first, s.h.dim(1));
  const Value start = reduce_min(where(busy, block.first, none), {0});
  const Value end = reduce_max(block.last, {0});
  const Values out = b.while_loop(
      Values{start, s.h, s.q},
      [&](Builder&, std::span<const Value> v) -> Values { return {lt(v[0], end)}; },
      [&](Builder&, std::span<const Value> v) -> Values {
        const Value k = v[0];
        const Value here = broadcast_to(k, block.first.dims());
        const Value is_first = eq(here, block.first);
        const Value applies = logical_and(ge(here, block.first), lt(here, block.last));
        const Value rows = part(v[1], 1, k, 2);
        // What the rotation makes (r, 0): the first column, or the one before, where the bulge is.
        const Value own = part(rows, 2, k, 1);
        const Value previous = part(rows, 2, maximum(k - 1.0, zeros_like(k)), 1);
        const Value first = cube(is_first);
        const Value f =
            where(first, slice_dim(own, 1, 0, 1) - cube(shift), slice_dim(previous, 1, 0, 1));
        const Value g = where(first, slice_dim(own, 1, 1, 2), slice_dim(previous, 1, 1, 2));
        const Givens rotation = givens(f, g, cube(applies));
        const Value h = write_part(v[1], 1, k, rotated(rows, rotation, false));
        return {k + 1.0, write_part(h, 2, k, rotated(part(h, 2, k, 2), rotation, true)),
                write_part(v[2], 2, k, rotated(part(v[2], 2, k, 2), rotation, true))};
      });
  return {out[1], out[2]};
}

struct Schur {
  Similar form;  // h is triangular
  Value info;    // [batch] S32: how many eigenvalues were not found
};

Schur schur(Value a) {
  Builder& b = a.builder();
  const int64_t n = a.dim(1);
  const Similar start = hessenberg(a);
  const Value none = b.zeros({DType::S32, {a.dim(0)}});
  if (n < 2) return {start, none};
  const Value h = deflate(start.h);
  const Value last = active_block(diagonal_of(h, -1)).last;
  const Values out = b.while_loop(
      Values{index(b, 0), none, last, h, start.q},
      [n](Builder& inner, std::span<const Value> s) -> Values {
        const Value busy = reduce_or(gt(s[2], 0.0), {0});
        return {logical_and(busy, lt(s[0], index(inner, kStepsEach * n)))};
      },
      [](Builder&, std::span<const Value> s) -> Values {
        const Active block = active_block(diagonal_of(s[3], -1));
        const Value fresh = ne(block.last, s[2]);
        const Value steps = where(fresh, zeros_like(s[1]), s[1] + 1.0);
        const Similar next = chase({s[3], s[4]}, block, shift_of(s[3], block, steps));
        const Value h = deflate(next.h);
        return {s[0] + 1.0, steps, active_block(diagonal_of(h, -1)).last, h, next.q};
      });
  return {{out[3], out[4]}, out[2]};
}

/// The eigenvectors of a triangular matrix, as columns: row by row from the last one.
Value triangular_eigenvectors(Value t) {
  Builder& b = t.builder();
  const int64_t n = t.dim(1);
  const Value eigenvalues = unsqueeze(diagonal(t), 1);  // [batch, 1, n]
  const Value norm = reduce_max(abs(t), {1, 2}, true);
  const Value floor = where(eq(norm, 0.0), ones_like(norm), norm) * epsilon(t.dtype());
  const double greatest = stablehlo::real_dtype(t.dtype()) == DType::F64 ? 1e100 : 1e10;
  const Values out = b.while_loop(
      Values{index(b, n - 1), identity(b, t.dtype(), {t.dim(0)}, n)},
      [](Builder&, std::span<const Value> s) -> Values { return {ge(s[0], 0.0)}; },
      [&](Builder&, std::span<const Value> s) -> Values {
        const Value row = part(t, 1, s[0], 1);
        const Value columns = iota_like(row, 2, DType::S32);
        const Value right = gt(columns, broadcast_to(s[0], columns.dims()));
        const Value gap = broadcast_to(part(row, 2, s[0], 1), row.dims()) - eigenvalues;
        const Value tiny = lt(abs(gap), floor);
        const Value divisor = where(tiny, broadcast_to(cast(floor, t.dtype()), gap.dims()), gap);
        const Value found = -matrix_product(keep(right, row), s[1]) / divisor;
        const Value next = write_part(s[1], 1, s[0], where(right, found, part(s[1], 1, s[0], 1)));
        // A vector is as good as any multiple of it: none grows without bound.
        const Value size = where(right, abs(found), zeros_like(gap.builder().real(gap)));
        const Value by = where(gt(size, greatest), size, ones_like(size));
        return {s[0] - 1.0, next / cast(by, t.dtype())};
      });
  return out[1];
}

/// Of length 1, and the greatest component real, as LAPACK gives them.
Value normalized(Value x) {
  const Value size = abs(x), largest = reduce_max(size, {1}, true);
  const Value by = where(gt(largest, 0.0), largest, ones_like(largest));
  const Value scaled = x / cast(by, x.dtype());
  const Value relative = abs(scaled);
  const Value length = sqrt(reduce_sum(relative * relative, {1}, true));
  const Value rows = iota_like(x, 1, DType::S32);
  const Value none = constant_int_like(rows, x.dim(1));
  const Value place =
      reduce_min(where(eq(size, broadcast_to(largest, size.dims())), rows, none), {1}, true);
  const Value chosen =
      reduce_sum(keep(eq(rows, broadcast_to(place, rows.dims())), scaled), {1}, true);
  return scaled * (conjugate(chosen) / cast(abs(chosen) * length, x.dtype()));
}

/// Of a real matrix: which eigenvalues [batch, n] are real but for rounding.
Value without_imaginary(Value values, Value norm) {
  const int64_t n = values.dim(1);
  const double noise = epsilon(values.dtype()) * 4 * std::sqrt(static_cast<double>(n));
  return le(abs(imag(values)), squeeze(norm, 2) * noise);
}

Value real_only(Value pred, Value x) {
  const Value re = real(x);
  return where(pred, x.builder().complex(re, zeros_like(re)), x);
}

/// (A, compute_v) -> eigenvalues, eigenvectors, info
Values eig(Context& ctx) {
  const Value given = flatten_batch(ctx.tensor(0));
  Values results;
  for (size_t k = 0; k < ctx.num_outs(); ++k) results.push_back(ctx.b.zeros(ctx.out(k)));
  if (given.numel() == 0) return results;
  const Value a = cast(given, ctx.out(0).dtype);
  const Value norm = reduce_max(reduce_sum(abs(a), {1}, true), {2}, true);
  const Value by = where(eq(norm, 0.0), ones_like(norm), norm);
  const Schur found = schur(a / cast(by, a.dtype()));
  Value values = diagonal(found.form.h);
  const bool from_real = !is_complex(given.dtype());
  const Value is_real = without_imaginary(values, ones_like(norm));
  if (from_real) values = real_only(is_real, values);
  results[0] = reshape(values * cast(squeeze(by, 2), a.dtype()), ctx.out(0).dims);
  results[2] = reshape(found.info, ctx.out(2).dims);
  if (!ctx.flag(1)) return results;
  Value vectors = normalized(matrix_product(found.form.q, triangular_eigenvectors(found.form.h)));
  if (from_real) vectors = real_only(broadcast_to(unsqueeze(is_real, 1), vectors.dims()), vectors);
  results[1] = reshape(vectors, ctx.out(1).dims);
  return results;
}

}  // namespace

Table eig_table() {
  return {
      {.name = "torch_tpu::eig", .lower = eig},
  };
}

}  // namespace torch_tpu::lowering
