// L D L^T (or L D L^H) of symmetric (Hermitian) matrices with LAPACK's pivots (Bunch and Kaufman):
// D has blocks of 1 x 1 and 2 x 2. Each matrix of a batch is at a step of its own.
#include "lowering/cast.h"
#include "lowering/families.h"
#include "lowering/linalg.h"

namespace torch_tpu::lowering {
namespace {

/// (1 + sqrt(17)) / 8: bounds the growth of elements.
constexpr double kAlpha = 0.64038820320220756872;

Value keep(Value pred, Value x) { return where(pred, x, zeros_like(x)); }
Value index(Builder& b, int64_t i) { return b.constant_int(DType::S32, i); }

Value transposed(Value x, bool hermitian) { return hermitian ? adjoint(x) : swap_last(x); }

/// |re| + |im|, as LAPACK compares.
Value magnitude(Value x) {
  if (!is_complex(x.dtype())) return abs(x);
  return abs(x.builder().real(x)) + abs(x.builder().imag(x));
}

/// Along one dimension (1: rows, 2: columns) of [batch, m, n]: which is number `i` [batch, 1, 1].
Value is_at(Value x, int64_t dim, Value i) {
  Dims dims(3, 1);
  dims[dim] = x.dim(dim);
  const Value positions = x.builder().iota({DType::S32, dims}, dim);
  return broadcast_to(eq(positions, i), x.dims());
}

Value is_after(Value x, int64_t dim, Value i) {
  Dims dims(3, 1);
  dims[dim] = x.dim(dim);
  const Value positions = x.builder().iota({DType::S32, dims}, dim);
  return broadcast_to(gt(positions, i), x.dims());
}

/// Row (column) number i, kept; 0 if there is none.
Value pick(Value x, int64_t dim, Value i) {
  return reduce_sum(keep(is_at(x, dim, i), x), {dim}, true);
}

Value pick(Value x, Value row, Value column) { return pick(pick(x, 1, row), 2, column); }

/// Rows (columns) i and j exchanged.
Value exchange(Value x, int64_t dim, Value i, Value j) {
  return where(is_at(x, dim, i), pick(x, dim, j), where(is_at(x, dim, j), pick(x, dim, i), x));
}

/// The first position of the greatest element along dim, and that element. None counts as -1.
struct Greatest {
  Value position, size;
};

Greatest greatest(Value x, Value counts, int64_t dim) {
  const Value size = where(counts, magnitude(x), constant_like(magnitude(x), -1.0));
  const Value most = reduce_max(size, {dim}, true);
  const Value positions = iota_like(size, dim, DType::S32);
  const Value none = constant_int_like(positions, x.dim(dim));
  const Value found = eq(size, broadcast_to(most, size.dims()));
  return {reduce_min(where(found, positions, none), {dim}, true), most};
}

struct Choice {
  Value row;      // [batch, 1, 1]: what is exchanged with the last row of the block
  Value is_pair;  // Pred
  Value is_zero;  // Pred: nothing to eliminate
};

Choice choose_pivot(Value a, Value k) {
  const Value column = pick(a, 2, k);
  const Value own = magnitude(pick(column, 1, k));
  const Greatest below = greatest(column, is_after(column, 1, k), 1);
  const Value largest = maximum(below.size, zeros_like(below.size));
  // The greatest element of that row beside its diagonal, in what is not eliminated yet.
  const Value row = pick(a, 1, below.position);
  const Value others =
      logical_and(is_after(row, 2, k - 1.0), logical_not(is_at(row, 2, below.position)));
  const Value in_row = greatest(row, others, 2).size;
  const Value bound = largest * kAlpha;
  const Value stays = logical_or(ge(own, bound), ge(own * in_row, bound * largest));
  const Value diagonal = magnitude(pick(row, 2, below.position));
  const Value other = ge(diagonal, in_row * kAlpha);
  const Value is_zero = eq(maximum(own, largest), 0.0);
  // Without a row below (or with NaN) there is nothing to choose.
  const Value none = logical_or(ge(below.position, index(a.builder(), a.dim(1))), is_zero);
  const Value alone = logical_or(stays, none);
  return {where(alone, k, below.position), logical_not(logical_or(alone, other)), is_zero};
}

/// L's columns for a block of D, and what the block takes from the rest of the matrix.
struct Elimination {
  Value first, second;  // [batch, n, 1], zeros above and in the block
  Value update;         // [batch, n, n]
};

Elimination eliminate(Value a, Value k, const Choice& choice) {
  const Value next = k + 1.0;
  const Value after = where(choice.is_pair, next, k);
  const Value d11 = pick(a, k, k), d12 = pick(a, k, next), d21 = pick(a, next, k),
              d22 = pick(a, next, next);
  const auto column = [&](Value i) {
    const Value x = pick(a, 2, i);
    return keep(is_after(x, 1, after), x);
  };
  const auto row = [&](Value i) {
    const Value x = pick(a, 1, i);
    return keep(is_after(x, 2, after), x);
  };
  const auto divisor = [](Value pred, Value x) { return where(pred, x, ones_like(x)); };
  const Value c1 = column(k), c2 = column(next);
  const Value single = c1 / divisor(logical_not(choice.is_zero), d11);
  // [c1 c2] times the inverse of the 2 x 2 block, without overflow.
  const Value by21 = divisor(choice.is_pair, d21), by12 = divisor(choice.is_pair, d12);
  const Value low = d22 / by21, high = d11 / by12;
  const Value rest = divisor(choice.is_pair, high * (d22 / by21) - ones_like(d11));
  const Value first = where(choice.is_pair, (low * c1 - c2) / (rest * by12), single);
  const Value second =
      keep(broadcast_to(choice.is_pair, c2.dims()), (high * c2 - c1) / (rest * by21));
  return {first, second, first * row(k) + second * row(next)};
}

/// One step. State: k [batch, 1, 1], what is left, L and D, pivots [batch, n, 1], info.
Values step(std::span<const Value> s, bool hermitian) {
  const Value k = s[0], n = constant_int_like(k, s[1].dim(1));
  const Value active = lt(k, n);
  Choice choice = choose_pivot(s[1], k);
  choice.is_pair = logical_and(choice.is_pair, active);
  const Value last = where(choice.is_pair, k + 1.0, k);
  const Value a = exchange(exchange(s[1], 1, last, choice.row), 2, last, choice.row);
  const Elimination e = eliminate(a, k, choice);
  Value next = a - keep(broadcast_to(active, a.dims()), e.update);
  if (hermitian) {  // rounding must not make the diagonal complex
    const Value on_diagonal = eq(iota_like(next, 1, DType::S32), iota_like(next, 2, DType::S32));
    next = where(on_diagonal, cast(cast(next, stablehlo::real_dtype(next.dtype())), next.dtype()),
                 next);
  }
  // The block of D stands where it was; L below it.
  const auto stored = [&](Value i, Value from, Value below) {
    const Value x = pick(a, 2, i);
    const Value in_block =
        logical_and(is_after(x, 1, from - 1.0), logical_not(is_after(x, 1, last)));
    return where(in_block, x, below);
  };
  const auto write = [&](Value x, Value pred, Value i, Value columns) {
    const Value here = logical_and(is_at(x, 2, i), broadcast_to(pred, x.dims()));
    return where(here, broadcast_to(columns, x.dims()), x);
  };
  Value ld = write(s[2], active, k, stored(k, k, e.first));
  ld = write(ld, choice.is_pair, k + 1.0, stored(k + 1.0, k + 1.0, e.second));
  const Value pivot = choice.row + 1.0;
  const Value number = where(choice.is_pair, -pivot, pivot);
  const Value at_block = logical_or(
      is_at(s[3], 1, k), logical_and(is_at(s[3], 1, last), broadcast_to(active, s[3].dims())));
  const Value failed = logical_and(logical_and(active, choice.is_zero), eq(s[4], 0.0));
  return {where(active, last + 1.0, k), where(broadcast_to(active, a.dims()), next, s[1]), ld,
          where(at_block, broadcast_to(number, s[3].dims()), s[3]), where(failed, k + 1.0, s[4])};
}

/// (self, hermitian, check_errors) -> LD, pivots, info
Values ldl_factor(Context& ctx) {
  const bool hermitian = ctx.flag_or(1, false) && is_complex(ctx.out(0).dtype);
  const Value given = flatten_batch(ctx.tensor(0));
  if (given.numel() == 0)
    return {ctx.b.zeros(ctx.out(0)), ctx.b.zeros(ctx.out(1)), ctx.b.zeros(ctx.out(2))};
  const int64_t batch = given.dim(0), n = given.dim(1);
  const Value lower = lower_triangle(given);
  Value a = lower + transposed(lower_triangle(given, -1), hermitian);
  if (hermitian) {
    const Value on_diagonal = eq(iota_like(a, 1, DType::S32), iota_like(a, 2, DType::S32));
    a = where(on_diagonal, cast(cast(a, stablehlo::real_dtype(a.dtype())), a.dtype()), a);
  }
  const Value zero = ctx.b.zeros({DType::S32, {batch, 1, 1}});
  const Values out = ctx.b.while_loop(
      Values{zero, a, zeros_like(a), ctx.b.zeros({DType::S32, {batch, n, 1}}), zero},
      [n](Builder& b, std::span<const Value> s) -> Values {
        return {lt(reduce_min(s[0], {0, 1, 2}), index(b, n))};
      },
      [hermitian](Builder&, std::span<const Value> s) { return step(s, hermitian); });
  return {reshape(out[2], ctx.out(0).dims), reshape(out[3], ctx.out(1).dims),
          reshape(out[4], ctx.out(2).dims)};
}

// ---- Solving

/// Runs body(state, k) for k = 0 .. n - 1, or backwards; k is [batch, 1, 1].
template <class Body>
Value for_each(Value init, int64_t n, bool backward, const Body& body) {
  Builder& b = init.builder();
  return b.while_loop(
      Values{index(b, 0), init},
      [n](Builder& inner, std::span<const Value> s) -> Values {
        return {lt(s[0], index(inner, n))};
      },
      [&](Builder& inner, std::span<const Value> s) -> Values {
        const Value k = backward ? index(inner, n - 1) - s[0] : s[0];
        return {s[0] + 1.0, body(s[1], broadcast_to(k, {s[1].dim(0), 1, 1}))};
      })[1];
}

/// L, D and the exchanges of rows, as ldl_factor gives them.
struct Factors {
  Value ld;      // [batch, n, n]
  Value pivots;  // [batch, n, 1]
  Value first;   // [batch, n, 1] Pred: the first column of a 2 x 2 block
  bool hermitian;
};

/// In a row of negative pivots, every other one starts a block.
Value first_of_pairs(Value pivots) {
  const Value marks =
      for_each(zeros_like(pivots), pivots.dim(1), false, [&](Value marked, Value k) {
        const Value starts =
            logical_and(lt(pick(pivots, 1, k), 0.0), eq(pick(marked, 1, k - 1.0), 0.0));
        const Value here = logical_and(is_at(marked, 1, k), broadcast_to(starts, marked.dims()));
        return where(here, ones_like(marked), marked);
      });
  return ne(marks, 0.0);
}

Value is_first_at(const Factors& f, Value k) {
  return reduce_or(logical_and(is_at(f.first, 1, k), f.first), {1}, true);
}

/// [batch, n, 1]: element i + 1 of column i, and 0 at the end.
Value below_diagonal(Value x) {
  const int64_t n = x.dim(1);
  const Value zero = x.builder().zeros({x.dtype(), {x.dim(0), 1, 1}});
  if (n == 1) return zero;
  const Value block = slice_dim(slice_dim(x, 1, 1, n), 2, 0, n - 1);
  return x.builder().concatenate(Values{unsqueeze(diagonal(block), 2), zero}, 1);
}

/// Column k of L, below the block of D that it belongs to.
Value column_below(const Factors& f, Value k) {
  const Value column = pick(f.ld, 2, k);
  const Value end = where(is_first_at(f, k), k + 1.0, k);
  return keep(is_after(column, 1, end), column);
}

/// The exchange of rows that belongs to column k; none for the second of a block.
Value exchange_rows(const Factors& f, Value x, Value k) {
  const Value pivot = pick(f.pivots, 1, k), is_first = is_first_at(f, k);
  const Value row = where(is_first, k + 1.0, k);
  const Value moves = logical_or(is_first, gt(pivot, 0.0));
  return exchange(x, 1, row, where(moves, abs(pivot) - 1.0, row));
}

/// x [batch, n, m] with its rows moved up (by 1) or down (by -1).
Value shifted(Value x, int64_t by) {
  const Value zero = x.builder().zeros({x.dtype(), {}});
  return x.builder().pad(x, zero, {0, -by, 0}, {0, by, 0});
}

/// Solves D y = x.
Value divide_by_blocks(const Factors& f, Value x) {
  const Value d = unsqueeze(diagonal(f.ld), 2), n1 = ones_like(d);
  const Value is_pair = lt(f.pivots, 0.0), first = f.first;
  const Value below = below_diagonal(f.ld);  // D's element under the diagonal, by its column
  const Value above = f.hermitian ? conjugate(below) : below;
  // Of each row: the element beside its diagonal, and that of the other row.
  const Value near = where(is_pair, where(first, above, shifted(below, -1)), n1);
  const Value far = where(is_pair, where(first, below, shifted(above, -1)), n1);
  const Value other = where(first, shifted(d, 1), shifted(d, -1));
  const Value partner = where(broadcast_to(first, x.dims()), shifted(x, 1), shifted(x, -1));
  const Value both = (d / near) * (other / far) - n1;
  const Value paired = ((other / far) * (x / near) - partner / far) / where(is_pair, both, n1);
  return where(is_pair, paired, x / where(is_pair, n1, d));
}

Value solve(const Factors& f, Value x) {
  const int64_t n = f.ld.dim(1);
  x = for_each(x, n, false, [&](Value y, Value k) {
    y = exchange_rows(f, y, k);
    return y - column_below(f, k) * pick(y, 1, k);
  });
  x = divide_by_blocks(f, x);
  return for_each(x, n, true, [&](Value y, Value k) {
    Value column = column_below(f, k);
    if (f.hermitian) column = conjugate(column);
    const Value row = pick(y, 1, k) - reduce_sum(column * y, {1}, true);
    return exchange_rows(f, where(is_at(y, 1, k), broadcast_to(row, y.dims()), y), k);
  });
}

/// (LD, pivots, B, hermitian)
Values ldl_solve(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Dims batch = Dims(ctx.out().dims.begin(), ctx.out().dims.end() - 2);
  const Value ld = flatten_batch(broadcast_batch(ctx.tensor(0), batch));
  Dims pivot_dims = batch;
  pivot_dims.push_back(ld.dim(1));
  const Value pivots = reshape(broadcast_to(convert(ctx.tensor(1), DType::S32), pivot_dims),
                               {ld.dim(0), ld.dim(1), 1});
  const bool hermitian = ctx.flag_or(3, false) && is_complex(ld.dtype());
  const Value b = flatten_batch(broadcast_batch(ctx.tensor(2), batch));
  return {reshape(solve({ld, pivots, first_of_pairs(pivots), hermitian}, b), ctx.out().dims)};
}

}  // namespace

Table ldl_table() {
  return {
      {.name = "aten::linalg_ldl_factor_ex", .lower = ldl_factor},
      {.name = "aten::linalg_ldl_solve", .lower = ldl_solve},
  };
}

}  // namespace torch_tpu::lowering
