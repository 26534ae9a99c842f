// QR decomposition by Householder reflections. A loop makes the reflections of a panel of columns;
// their product has the form I - V T V^H, which is applied to everything else by matrix products.
#include "lowering/householder.h"

#include <algorithm>

#include "lowering/cast.h"
#include "lowering/families.h"

namespace torch_tpu::lowering {
namespace {

constexpr int64_t kPanel = 32;

Value scalar_index(Builder& b, int64_t i) { return b.constant_int(DType::S32, i); }

/// Columns [start, start + count) of [batch, m, n], from a run-time start.
Value columns_at(Value x, Value start, int64_t count) {
  const Value zero = scalar_index(x.builder(), 0);
  return x.builder().dynamic_slice(x, Values{zero, zero, start}, {x.dim(0), x.dim(1), count});
}

Value write_columns(Value x, Value update, Value start) {
  const Value zero = scalar_index(x.builder(), 0);
  return x.builder().dynamic_update_slice(x, update, Values{zero, zero, start});
}

/// Zeros appended as columns.
Value pad_columns(Value x, int64_t columns) {
  if (x.dim(2) == columns) return x;
  const Value zero = x.builder().zeros({x.dtype(), {}});
  return x.builder().pad(x, zero, {0, 0, 0}, {0, 0, columns - x.dim(2)});
}

Value rows_of(Value x) { return iota_like(x, 1, DType::S32); }
Value columns_of(Value x) { return iota_like(x, 2, DType::S32); }
Value equals(Value numbers, Value i) { return eq(numbers, broadcast_to(i, numbers.dims())); }
Value exceeds(Value numbers, Value i) { return gt(numbers, broadcast_to(i, numbers.dims())); }
Value keep(Value pred, Value x) { return where(pred, x, zeros_like(x)); }

/// The norm of columns [batch, m, 1], real, without overflow.
Value column_norm(Value x) {
  Value size = abs(x);
  const Value largest = reduce_max(size, {1}, true);
  const Value scale = where(gt(largest, zeros_like(largest)), largest, ones_like(largest));
  size = size / scale;
  return scale * sqrt(reduce_sum(size * size, {1}, true));
}

}  // namespace

Reflection reflect(Value x, Value j) {
  const DType dtype = x.dtype();
  Builder& b = x.builder();
  const Value rows = rows_of(x), head = equals(rows, j);
  const Value tail = keep(exceeds(rows, j), x);
  const Value alpha = reduce_sum(keep(head, x), {1}, true);
  const Value real = is_complex(dtype) ? b.real(alpha) : alpha;
  const Value norm = column_norm(tail);
  Value done = eq(norm, zeros_like(norm));
  Value length = column_norm(where(head, broadcast_to(alpha, x.dims()), tail));
  if (is_complex(dtype)) done = logical_and(done, eq(b.imag(alpha), zeros_like(norm)));
  const Value beta = where(done, real, where(lt(real, zeros_like(real)), length, -length));
  const Value divisor = where(done, ones_like(alpha), alpha - cast(beta, dtype));
  const Value by = where(done, ones_like(beta), beta);
  // (beta - alpha) / beta
  Value tau = (beta - real) / by;
  if (is_complex(dtype)) tau = b.complex(tau, -b.imag(alpha) / by);
  return {where(head, ones_like(x), tail / divisor), where(done, zeros_like(tau), tau),
          cast(beta, dtype)};
}

namespace {

/// Makes the reflections of a panel [batch, m, w] whose first diagonal element is in row `first`;
/// gives the panel in LAPACK's form and tau [batch, 1, w].
Values decompose_panel(Value panel, Value first) {
  Builder& b = panel.builder();
  const int64_t width = panel.dim(2);
  const Values inits{scalar_index(b, 0), panel, b.zeros({panel.dtype(), {panel.dim(0), 1, width}})};
  const Values out = b.while_loop(
      inits,
      [width](Builder& inner, std::span<const Value> s) -> Values {
        return {lt(s[0], scalar_index(inner, width))};
      },
      [first](Builder&, std::span<const Value> s) -> Values {
        const Value i = s[0], a = s[1], row = first + i;
        const Value column = columns_at(a, i, 1);
        const Reflection h = reflect(column, row);
        const Value projected = reduce_sum(conjugate(h.v) * a, {1}, true);
        const Value right = exceeds(columns_of(projected), i);
        const Value next = a - conjugate(h.tau) * h.v * keep(right, projected);
        const Value rows = rows_of(column);
        const Value stored = where(equals(rows, row), broadcast_to(h.beta, column.dims()),
                                   where(exceeds(rows, row), h.v, column));
        return {i + 1.0, write_columns(next, stored, i), write_columns(s[2], h.tau, i)};
      });
  return {out[1], out[2]};
}

/// The vectors of a panel [batch, m, w]: 1 on the diagonal that starts in row `first`, 0 above.
Value vectors_of(Value panel, Value first) {
  const Value diagonal = columns_of(panel) + broadcast_to(first, panel.dims());
  const Value rows = rows_of(panel);
  return where(eq(rows, diagonal), ones_like(panel), keep(gt(rows, diagonal), panel));
}

/// T with H(0) H(1) ... = I - V T V^H. The inverse of T has 1 / tau on and V^H V above its
/// diagonal; written without the division, for a tau of 0.
Value product_factor(Value v, Value tau) {
  const Value gram = upper_triangle(matrix_product(adjoint(v), v), 1);
  const Value unit = identity(v.builder(), v.dtype(), {v.dim(0)}, v.dim(2));
  const Value scale = broadcast_to(swap_last(tau), unit.dims());
  return solve_triangle(unit + scale * gram, unit * scale, {.lower = false, .unit = true});
}

/// c - V T V^H c, or with T^H.
Value apply_block(Value v, Value t, Value c, bool conjugated) {
  return c - matrix_product(
                 v, matrix_product(conjugated ? adjoint(t) : t, matrix_product(adjoint(v), c)));
}

int64_t panel_width(int64_t steps) { return std::min(kPanel, steps); }
int64_t panel_count(int64_t steps) { return (steps + kPanel - 1) / kPanel; }

/// One panel of the decomposition of a [batch, m, n], and all that is right of it.
Values decompose_step(Value a, Value tau, Value start, int64_t width) {
  const Values panel = decompose_panel(columns_at(a, start, width), start);
  const Value new_tau = write_columns(tau, panel[1], start);
  if (a.dim(2) == width) return {panel[0], new_tau};
  const Value v = vectors_of(panel[0], start);
  const Value updated = apply_block(v, product_factor(v, panel[1]), a, true);
  const Value right = ge(columns_of(a), broadcast_to(start + static_cast<double>(width), a.dims()));
  return {write_columns(where(right, updated, a), panel[0], start), new_tau};
}

/// Runs `step` for every panel, in order or in reverse; `state` is what it changes.
template <class Step>
Values for_each_panel(Builder& b, int64_t steps, bool reverse, Values state, const Step& step) {
  const int64_t count = panel_count(steps);
  const auto start_of = [&](Value i) {
    return (reverse ? scalar_index(i.builder(), count - 1) - i : i) * static_cast<double>(kPanel);
  };
  if (count == 1) return step(scalar_index(b, 0), state);
  state.insert(state.begin(), scalar_index(b, 0));
  const Values out = b.while_loop(
      state,
      [count](Builder& inner, std::span<const Value> s) -> Values {
        return {lt(s[0], scalar_index(inner, count))};
      },
      [&](Builder&, std::span<const Value> s) {
        Values next = step(start_of(s[0]), Values(s.begin() + 1, s.end()));
        next.insert(next.begin(), s[0] + 1.0);
        return next;
      });
  return {out.begin() + 1, out.end()};
}

}  // namespace

Reflections qr_decompose(Value a) {
  Builder& b = a.builder();
  const int64_t batch = a.dim(0), columns = a.dim(2), steps = std::min(a.dim(1), columns);
  if (a.numel() == 0) return {a, b.zeros({a.dtype(), {batch, steps}})};
  // Whole panels: the reflections of columns that are not there are the identity.
  const int64_t width = panel_width(steps), padded = panel_count(steps) * width;
  const Values inits{pad_columns(a, std::max(columns, padded)),
                     b.zeros({a.dtype(), {batch, 1, padded}})};
  const Values out =
      for_each_panel(b, steps, false, inits, [&](Value start, const Values& s) -> Values {
        return decompose_step(s[0], s[1], start, width);
      });
  return {slice_dim(out[0], 2, 0, columns), squeeze(slice_dim(out[1], 2, 0, steps), 1)};
}

Value apply_reflections(const Reflections& q, Value c, bool adjoint) {
  Builder& b = c.builder();
  const int64_t steps = q.tau.dim(1);
  if (steps == 0 || c.numel() == 0) return c;
  const int64_t width = panel_width(steps), padded = panel_count(steps) * width;
  const Value factors = pad_columns(slice_dim(q.factors, 2, 0, steps), padded);
  const Value tau = pad_columns(unsqueeze(q.tau, 1), padded);
  return for_each_panel(b, steps, !adjoint, {c}, [&](Value start, const Values& s) -> Values {
    const Value v = vectors_of(columns_at(factors, start, width), start);
    return {apply_block(v, product_factor(v, columns_at(tau, start, width)), s[0], adjoint)};
  })[0];
}

Value orthogonal_factor(const Reflections& q, int64_t columns) {
  const int64_t rows = q.factors.dim(1);
  const Value unit = identity(q.factors.builder(), q.factors.dtype(), {q.factors.dim(0)}, rows);
  return apply_reflections(q, slice_dim(unit, 2, 0, columns), false);
}

Value triangular_factor(const Reflections& q, int64_t rows) {
  return upper_triangle(slice_dim(q.factors, 1, 0, rows));
}

namespace {

Value shaped(Context& ctx, Value x, size_t k) { return reshape(x, ctx.out(k).dims); }

/// (A, mode) -> Q, R
Values qr(Context& ctx) {
  const Value a = flatten_batch(ctx.tensor(0));
  const std::string_view mode = ctx.text_or(1, "reduced");
  const int64_t m = a.dim(1), k = mode == "complete" ? m : std::min(m, a.dim(2));
  const Reflections q = qr_decompose(a);
  const Value r = shaped(ctx, triangular_factor(q, k), 1);
  if (mode == "r") return {ctx.b.zeros(ctx.out(0)), r};
  return {shaped(ctx, orthogonal_factor(q, k), 0), r};
}

/// (self) -> a, tau
Values geqrf(Context& ctx) {
  const Reflections q = qr_decompose(flatten_batch(ctx.tensor(0)));
  return {shaped(ctx, q.factors, 0), shaped(ctx, q.tau, 1)};
}

/// [..., k] -> [batch, k]
Value flatten_vectors(Value x) {
  const int64_t k = x.dims().back();
  return reshape(x, {stablehlo::numel(Dims(x.dims().begin(), x.dims().end() - 1)), k});
}

Reflections reflections(Context& ctx, size_t factors, size_t tau) {
  return {flatten_batch(ctx.tensor(factors)), flatten_vectors(ctx.tensor(tau))};
}

/// (input, tau)
Values householder_product(Context& ctx) {
  return {shaped(ctx, orthogonal_factor(reflections(ctx, 0, 1), ctx.out().dims.back()), 0)};
}

/// (self, input2, input3, left, transpose): vectors, tau, what is multiplied by Q
Values ormqr(Context& ctx) {
  const Reflections q = reflections(ctx, 0, 1);
  const Value c = flatten_batch(ctx.tensor(2));
  const bool transpose = ctx.flag_or(4, false);
  if (ctx.flag_or(3, true)) return {shaped(ctx, apply_reflections(q, c, transpose), 0)};
  // C Q = (Q^H C^H)^H
  return {shaped(ctx, adjoint(apply_reflections(q, adjoint(c), !transpose)), 0)};
}

}  // namespace

Table householder_table() {
  return {
      {.name = "aten::linalg_qr", .lower = qr},
      {.name = "aten::geqrf", .lower = geqrf},
      {.name = "aten::linalg_householder_product", .lower = householder_product},
      {.name = "aten::ormqr", .lower = ormqr},
  };
}

}  // namespace torch_tpu::lowering
