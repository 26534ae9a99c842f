// LU decomposition with partial pivoting and what is solved with it. Panels of columns are
// decomposed by a loop; everything to their right is updated by matrix products.
#include <algorithm>

#include "lowering/families.h"
#include "lowering/linalg.h"

namespace torch_tpu::lowering {
namespace {

constexpr int64_t kPanel = 64;

/// Rows of [batch, m, n] in the order [batch, m'].
Value take_rows(Value x, Value order) {
  stablehlo::GatherDims dims;
  dims.offset_dims = {2};
  dims.collapsed_slice_dims = {1};
  dims.operand_batching_dims = {0};
  dims.start_indices_batching_dims = {0};
  dims.start_index_map = {1};
  dims.index_vector_dim = 2;
  dims.slice_sizes = {1, 1, x.dim(2)};
  return x.builder().gather(x, order, dims);
}

/// Column i (0-d, S32) of [batch, n] or [batch, m, n], kept.
Value column(Value x, Value i) {
  Values starts(x.rank(), x.builder().constant_int(DType::S32, 0));
  starts.back() = i;
  Dims sizes = x.dims();
  sizes.back() = 1;
  return x.builder().dynamic_slice(x, starts, sizes);
}

/// Row number `at` [batch, 1, 1] of [batch, m, n], as [batch, 1, n]; the rows' numbers are `rows`.
Value pick_row(Value x, Value rows, Value at) {
  const Value picked = where(eq(rows, broadcast_to(at, rows.dims())), x, zeros_like(x));
  return reduce_sum(picked, {1}, true);
}

/// Exchanges rows `first` and `second` [batch, 1, 1], which are a_row and b_row.
Value exchange_rows(Value x, Value rows, Value first, Value first_row, Value second,
                    Value second_row) {
  const Value is_first = eq(rows, broadcast_to(first, rows.dims()));
  const Value is_second = eq(rows, broadcast_to(second, rows.dims()));
  return where(is_first, second_row, where(is_second, first_row, x));
}

/// What pivots are compared by: |re| + |im| for complex numbers, as LAPACK does.
Value magnitude(Value x) {
  if (!is_complex(x.dtype())) return abs(x);
  return abs(x.builder().real(x)) + abs(x.builder().imag(x));
}

struct Panel {
  Value lu;      // [batch, m, n]
  Value order;   // [batch, m]: which row of the input each row was
  Value pivots;  // [batch, n]: the row exchanged with row j at step j
};

/// One column of the panel: pivot, exchange, eliminate.
Values eliminate_column(Builder& b, std::span<const Value> state, bool pivot) {
  const Value j = state[0], a = state[1], order = state[2], pivots = state[3];
  const Value rows = iota_like(a, 1, DType::S32), columns = iota_like(a, 2, DType::S32);
  const Dims scalar_dims{a.dim(0), 1, 1};
  const Value at_j = broadcast_to(j, scalar_dims);
  Value p = at_j;
  if (pivot) {
    Value size = magnitude(column(a, j));
    const Value candidates = slice_dim(rows, 2, 0, 1);
    size =
        where(ge(candidates, broadcast_to(j, candidates.dims())), size, constant_like(size, -1.0));
    const Value largest = eq(size, broadcast_to(reduce_max(size, {1}, true), size.dims()));
    const Value none = b.constant_int(DType::S32, a.dim(1));
    p = reduce_min(where(largest, candidates, none), {1}, true);
    p = where(eq(p, broadcast_to(none, p.dims())), at_j, p);  // NaN equals nothing
  }
  const Value pivot_row = pick_row(a, rows, p), j_row = pick_row(a, rows, at_j);
  const Value exchanged = exchange_rows(a, rows, at_j, j_row, p, pivot_row);

  const Value below = gt(rows, broadcast_to(j, rows.dims()));
  const Value head = broadcast_to(column(pivot_row, j), scalar_dims);
  const Value zero_head = eq(head, zeros_like(head));
  const Value divisor = where(zero_head, ones_like(head), head);
  Value factors = column(exchanged, j) / divisor;
  factors = where(slice_dim(below, 2, 0, 1), factors, zeros_like(factors));
  const Value right = gt(columns, broadcast_to(j, columns.dims()));
  const Value update = factors * where(slice_dim(right, 1, 0, 1), pivot_row, zeros_like(pivot_row));
  const Value is_column = eq(columns, broadcast_to(j, columns.dims()));
  const Value next = where(logical_and(is_column, below), factors, exchanged - update);

  const Value order3 = unsqueeze(order, 2), order_rows = iota_like(order3, 1, DType::S32);
  const Value next_order =
      exchange_rows(order3, order_rows, at_j, pick_row(order3, order_rows, at_j), p,
                    pick_row(order3, order_rows, p));
  const Value steps = iota_like(pivots, 1, DType::S32);
  const Value next_pivots =
      where(eq(steps, broadcast_to(j, steps.dims())), reshape(p, {a.dim(0), 1}), pivots);
  return {j + 1.0, next, squeeze(next_order, 2), next_pivots};
}

/// LU of [batch, m, n] with n <= m or n the number of pivots wanted.
Panel decompose_panel(Value a, int64_t steps, bool pivot) {
  Builder& b = a.builder();
  const Values inits{b.constant_int(DType::S32, 0), a,
                     b.iota({DType::S32, {a.dim(0), a.dim(1)}}, 1),
                     b.zeros({DType::S32, {a.dim(0), steps}})};
  const Values out = b.while_loop(
      inits,
      [steps](Builder& inner, std::span<const Value> s) -> Values {
        return {lt(s[0], inner.constant_int(DType::S32, steps))};
      },
      [pivot](Builder& inner, std::span<const Value> s) {
        return eliminate_column(inner, s, pivot);
      });
  return {out[1], out[2], out[3]};
}

/// The first `count` rows of x, then `rest`.
Value below(Value top, Value rest) {
  if (top.dim(1) == 0) return rest;
  const Values parts{top, rest};
  return top.builder().concatenate(parts, 1);
}

Value beside(Value left, Value right) {
  if (left.dim(2) == 0) return right;
  if (right.dim(2) == 0) return left;
  const Values parts{left, right};
  return left.builder().concatenate(parts, 2);
}

/// LU of [batch, m, n]. Pivots count from 0.
Panel decompose(Value a, bool pivot) {
  Builder& b = a.builder();
  const int64_t m = a.dim(1), n = a.dim(2), steps = std::min(m, n);
  Panel result{a, b.iota({DType::S32, {a.dim(0), m}}, 1), b.zeros({DType::S32, {a.dim(0), 0}})};
  if (a.numel() == 0) return result;
  Values pivots;
  for (int64_t start = 0; start < steps; start += kPanel) {
    const int64_t end = std::min(start + kPanel, steps);
    const Value active = slice_dim(result.lu, 1, start, m);
    const Panel panel = decompose_panel(slice_dim(active, 2, start, end), end - start, pivot);
    const Value ordered = take_rows(active, panel.order);
    Value right = slice_dim(ordered, 2, end, n);
    if (end < n) {
      const Value upper = solve_triangle(slice_dim(panel.lu, 1, 0, end - start),
                                         slice_dim(right, 1, 0, end - start), {.unit = true});
      Value rest = slice_dim(right, 1, end - start, m - start);
      if (end < m)
        rest = rest - matrix_product(slice_dim(panel.lu, 1, end - start, m - start), upper);
      right = below(upper, rest);
    }
    const Value done = beside(beside(slice_dim(ordered, 2, 0, start), panel.lu), right);
    result.lu = below(slice_dim(result.lu, 1, 0, start), done);
    const Value order = unsqueeze(result.order, 2);
    result.order = squeeze(
        below(slice_dim(order, 1, 0, start), take_rows(slice_dim(order, 1, start, m), panel.order)),
        2);
    pivots.push_back(panel.pivots + static_cast<double>(start));
  }
  result.pivots = pivots.size() == 1 ? pivots[0] : b.concatenate(pivots, 1);
  return result;
}

/// The order of m rows after the exchanges of `pivots` [batch, k], which count from 1.
Value order_of(Value pivots, int64_t m) {
  Builder& b = pivots.builder();
  const int64_t batch = pivots.dim(0), steps = pivots.dim(1);
  const Values inits{b.constant_int(DType::S32, 0), b.iota({DType::S32, {batch, m, 1}}, 1),
                     convert(pivots, DType::S32)};
  if (steps == 0) return squeeze(inits[1], 2);
  const Values out = b.while_loop(
      inits,
      [steps](Builder& inner, std::span<const Value> s) -> Values {
        return {lt(s[0], inner.constant_int(DType::S32, steps))};
      },
      [batch](Builder&, std::span<const Value> s) -> Values {
        const Value rows = iota_like(s[1], 1, DType::S32);
        const Value first = broadcast_to(s[0], {batch, 1, 1});
        const Value second = reshape(column(s[2], s[0]), {batch, 1, 1}) - 1.0;
        return {s[0] + 1.0,
                exchange_rows(s[1], rows, first, pick_row(s[1], rows, first), second,
                              pick_row(s[1], rows, second)),
                s[2]};
      });
  return squeeze(out[1], 2);
}

/// P [batch, m, m] with A = P L U: column i is the unit vector of the row that became row i.
Value permutation_matrix(Value order, DType dtype) {
  const Dims dims{order.dim(0), order.dim(1), order.dim(1)};
  const Value rows = order.builder().iota({DType::S32, dims}, 1);
  return convert(eq(rows, broadcast_to(unsqueeze(order, 1), dims)), dtype);
}

Value inverse_order(Value order) {
  const Dims dims{order.dim(0), order.dim(1), order.dim(1)};
  Builder& b = order.builder();
  const Value hits = eq(b.iota({DType::S32, dims}, 1), broadcast_to(unsqueeze(order, 1), dims));
  return reduce_sum(where(hits, b.iota({DType::S32, dims}, 2), b.zeros({DType::S32, dims})), {2});
}

/// Solves A x = b with A[order] = L U.
Value solve(Value lu, Value order, Value b) {
  const Value y = solve_triangle(lu, take_rows(b, order), {.unit = true});
  return solve_triangle(lu, y, {.lower = false});
}

/// Solves A^H x = b.
Value solve_adjoint(Value lu, Value order, Value b) {
  const Value y = solve_triangle(lu, b, {.lower = false, .transpose = "ADJOINT"});
  const Value z = solve_triangle(lu, y, {.unit = true, .transpose = "ADJOINT"});
  return take_rows(z, inverse_order(order));
}

/// L [batch, m, k] and U [batch, k, n] of both in one matrix.
Value lower_factor(Value lu) {
  const int64_t k = std::min(lu.dim(1), lu.dim(2));
  const Value l = slice_dim(lu, 2, 0, k);
  const Value diagonal = eq(iota_like(l, 1, DType::S32), iota_like(l, 2, DType::S32));
  return where(diagonal, ones_like(l), lower_triangle(l, -1));
}

Value upper_factor(Value lu) {
  return upper_triangle(slice_dim(lu, 1, 0, std::min(lu.dim(1), lu.dim(2))));
}

Value zero_pivot(Value lu) {
  const Value d = diagonal(lu);
  return first_position(eq(d, zeros_like(d)));
}

}  // namespace

Value pivots_in_order(Value a) { return diagonal(decompose(flatten_batch(a), false).lu); }

namespace {

Value shaped(Context& ctx, Value x, size_t k) { return reshape(x, ctx.out(k).dims); }

/// (A, pivot, check_errors) -> LU, pivots, info
Values lu_factor(Context& ctx) {
  const Panel lu = decompose(flatten_batch(ctx.tensor(0)), ctx.flag_or(1, true));
  return {shaped(ctx, lu.lu, 0), shaped(ctx, lu.pivots + 1.0, 1),
          shaped(ctx, zero_pivot(lu.lu), 2)};
}

/// (A, pivot) -> P, L, U; P is empty without pivoting
Values lu_parts(Context& ctx) {
  const bool pivot = ctx.flag_or(1, true);
  const Panel lu = decompose(flatten_batch(ctx.tensor(0)), pivot);
  const Value p =
      pivot ? shaped(ctx, permutation_matrix(lu.order, lu.lu.dtype()), 0) : ctx.b.zeros(ctx.out(0));
  return {p, shaped(ctx, lower_factor(lu.lu), 1), shaped(ctx, upper_factor(lu.lu), 2)};
}

/// [..., k] -> [batch, k]
Value flatten_pivots(Value pivots) {
  const int64_t k = pivots.dim(pivots.rank() - 1);
  int64_t batch = 1;
  for (int64_t i = 0; i + 1 < pivots.rank(); ++i) batch *= pivots.dim(i);
  return reshape(pivots, {batch, k});
}

/// (LU, pivots, unpack_data, unpack_pivots) -> P, L, U
Values lu_unpack(Context& ctx) {
  const Value lu = flatten_batch(ctx.tensor(0));
  Values results{ctx.b.zeros(ctx.out(0)), ctx.b.zeros(ctx.out(1)), ctx.b.zeros(ctx.out(2))};
  if (ctx.flag_or(3, true)) {
    const Value order = order_of(flatten_pivots(ctx.tensor(1)), lu.dim(1));
    results[0] = shaped(ctx, permutation_matrix(order, lu.dtype()), 0);
  }
  if (ctx.flag_or(2, true)) {
    results[1] = shaped(ctx, lower_factor(lu), 1);
    results[2] = shaped(ctx, upper_factor(lu), 2);
  }
  return results;
}

/// (LU, pivots, B, left, adjoint)
Values lu_solve(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Dims batch(ctx.out().dims.begin(), ctx.out().dims.end() - 2);
  const Value lu = flatten_batch(broadcast_batch(ctx.tensor(0), batch));
  Dims pivot_dims = batch;
  pivot_dims.push_back(lu.dim(2));
  const Value pivots = flatten_pivots(broadcast_to(ctx.tensor(1), pivot_dims));
  const Value order = order_of(pivots, lu.dim(1));
  const bool left = ctx.flag_or(3, true);
  Value b = flatten_batch(broadcast_batch(ctx.tensor(2), batch));
  if (!left) b = adjoint(b);
  // X A = B is A^H X^H = B^H.
  const Value x = ctx.flag_or(4, false) == left ? solve_adjoint(lu, order, b) : solve(lu, order, b);
  return {shaped(ctx, left ? x : adjoint(x), 0)};
}

/// (A, check_errors) -> inverse, info
Values inverse(Context& ctx) {
  const Value a = flatten_batch(ctx.tensor(0));
  if (a.numel() == 0) return {ctx.b.zeros(ctx.out(0)), ctx.b.zeros(ctx.out(1))};
  const Panel lu = decompose(a, true);
  const Value unit = identity(ctx.b, a.dtype(), {a.dim(0)}, a.dim(1));
  return {shaped(ctx, solve(lu.lu, lu.order, unit), 0), shaped(ctx, zero_pivot(lu.lu), 1)};
}

}  // namespace

Table lu_table() {
  return {
      {.name = "aten::linalg_lu_factor_ex", .lower = lu_factor},
      {.name = "aten::linalg_lu", .lower = lu_parts},
      {.name = "aten::lu_unpack", .lower = lu_unpack},
      {.name = "aten::linalg_lu_solve", .lower = lu_solve},
      {.name = "aten::linalg_inv_ex", .lower = inverse},
  };
}

}  // namespace torch_tpu::lowering
