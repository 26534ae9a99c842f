#include "lowering/scan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lowering/families.h"
#include "lowering/reduce.h"

namespace torch_tpu::lowering {

namespace {

/// Up to this size a scan takes log2 of it steps over all elements, fused into one loop.
constexpr int64_t kDoubled = 64;
/// The longest part of a longer scan that is joined one after the other.
constexpr int64_t kLongestRow = 64;

/// x moved right by `distance` along dim, `filler` coming in; `high` more elements at the end.
Value moved(Value x, Value filler, int64_t dim, int64_t distance, int64_t high) {
  Dims low(x.dims().size(), 0), end(x.dims().size(), 0);
  low[static_cast<size_t>(dim)] = distance;
  end[static_cast<size_t>(dim)] = high;
  return x.builder().pad(x, filler, low, end);
}

Values each(const Values& xs, const std::function<Value(size_t)>& f) {
  Values out;
  for (size_t i = 0; i < xs.size(); ++i) out.push_back(f(i));
  return out;
}

/// Doubles the joined stretch in every step.
Values scan_by_doubling(Values xs, const Values& identities, int64_t dim, const Join& join) {
  for (int64_t step = 1; step < xs[0].dim(dim); step *= 2) {
    xs =
        join(each(xs, [&](size_t i) { return moved(xs[i], identities[i], dim, step, -step); }), xs);
  }
  return xs;
}

/// Scans along dimension 0, one element after the other.
Values scan_rows(const Values& xs, const Join& join) {
  const size_t n = xs.size();
  const int64_t rows = xs[0].dim(0);
  Dims row = xs[0].dims();
  row[0] = 1;
  // State: the position, the last row of each operand, and the operands, replaced row by row.
  Values state{xs[0].builder().constant_int(DType::S32, 1)};
  for (const Value& x : xs) state.push_back(stablehlo::slice_dim(x, 0, 0, 1));
  state.insert(state.end(), xs.begin(), xs.end());
  const auto more = [rows](Builder&, std::span<const Value> s) -> Values {
    return {stablehlo::lt(s[0], static_cast<double>(rows))};
  };
  const auto step = [&](Builder& b, std::span<const Value> s) -> Values {
    Values starts(row.size(), b.constant_int(DType::S32, 0));
    starts[0] = s[0];
    const Values last(s.begin() + 1, s.begin() + 1 + n);
    Values current;
    for (size_t i = 0; i < n; ++i) current.push_back(b.dynamic_slice(s[1 + n + i], starts, row));
    const Values joined = join(last, current);
    Values next{s[0] + 1.0};
    next.insert(next.end(), joined.begin(), joined.end());
    for (size_t i = 0; i < n; ++i) {
      next.push_back(b.dynamic_update_slice(s[1 + n + i], joined[i], starts));
    }
    return next;
  };
  const Values end = xs[0].builder().while_loop(state, more, step);
  return Values(end.begin() + 1 + n, end.end());
}

/// Dimension `from` of x moved to the place `to`.
Value with_dim_moved(Value x, int64_t from, int64_t to) {
  Dims order = stablehlo::all_dims(x);
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return stablehlo::transpose(x, order);
}

}  // namespace

Values inclusive_scan(const Values& xs, const Values& identities, int64_t dim, const Join& join) {
  const int64_t size = xs[0].dim(dim);
  if (xs[0].numel() == 0) return xs;
  if (size <= kDoubled) return scan_by_doubling(xs, identities, dim, join);
  // All blocks are scanned side by side, then the blocks' totals, and each block is joined with the
  // total of those before it: a constant number of joins for each element.
  const auto root = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(size))));
  const int64_t length = std::min(root, kLongestRow);
  const int64_t blocks = (size + length - 1) / length;
  Dims split = xs[0].dims();
  split[static_cast<size_t>(dim)] = blocks;
  split.insert(split.begin() + dim + 1, length);
  const Values parts = each(xs, [&](size_t i) {
    const Value full = moved(xs[i], identities[i], dim, 0, blocks * length - size);
    return with_dim_moved(stablehlo::reshape(full, split), dim + 1, 0);
  });
  const Values inner = scan_rows(parts, join);
  Values totals = each(inner, [&](size_t i) {
    return stablehlo::squeeze(stablehlo::slice_dim(inner[i], 0, length - 1, length), 0);
  });
  totals = inclusive_scan(totals, identities, dim, join);
  const Values before = each(totals, [&](size_t i) {
    return stablehlo::broadcast_to(moved(totals[i], identities[i], dim, 1, -1), inner[i].dims());
  });
  const Values joined = join(before, inner);
  Dims padded = xs[0].dims();
  padded[static_cast<size_t>(dim)] = blocks * length;
  return each(joined, [&](size_t i) {
    const Value back = stablehlo::reshape(with_dim_moved(joined[i], 0, dim + 1), padded);
    return stablehlo::slice_dim(back, dim, 0, size);
  });
}

Value cumulative_max(Value x, int64_t dim) {
  return inclusive_scan({x}, {x.builder().lowest(x.dtype())}, dim,
                        [](const Values& left, const Values& right) -> Values {
                          return {stablehlo::maximum(left[0], right[0])};
                        })[0];
}

namespace {

Value multiply(Value a, Value b) { return a * b; }
Value add(Value a, Value b) { return a + b; }

/// log(exp(a) + exp(b)).
Value log_add_exp(Value a, Value b) {
  Builder& builder = a.builder();
  const Value re_a = builder.real(a), re_b = builder.real(b);
  const Value a_is_low = stablehlo::le(re_a, re_b);
  const Value low = stablehlo::where(a_is_low, a, b), high = stablehlo::where(a_is_low, b, a);
  const Value sum = high + stablehlo::log1p(stablehlo::exp(low - high));
  // Equal infinities have no difference.
  const Value re_low = builder.real(low);
  const Value same = stablehlo::logical_and(stablehlo::eq(re_a, re_b),
                                            stablehlo::logical_not(builder.is_finite(re_low)));
  if (!stablehlo::is_complex(a.dtype())) return stablehlo::where(same, a, sum);
  const Value infinite = stablehlo::where(stablehlo::lt(re_low, 0.0), low,
                                          stablehlo::log(stablehlo::exp(a) + stablehlo::exp(b)));
  return stablehlo::where(same, infinite, sum);
}

using Binary = Value (*)(Value, Value);

Values scan_one(Context& ctx, double identity, Binary join) {
  const Value x = cast(ctx.tensor(0), Context::compute_dtype(ctx.out().dtype));
  if (x.rank() == 0) return {x};
  const int64_t dim = stablehlo::wrap_dim(ctx.integer(1), x.rank());
  const Value neutral = cast(ctx.b.constant(stablehlo::real_dtype(x.dtype()), identity), x.dtype());
  return inclusive_scan({x}, {neutral}, dim, [join](const Values& left, const Values& right) {
    return Values{join(left[0], right[0])};
  });
}

Values cumsum(Context& ctx) { return scan_one(ctx, 0.0, add); }
Values cumprod(Context& ctx) { return scan_one(ctx, 1.0, multiply); }
Values logcumsumexp(Context& ctx) {
  return scan_one(ctx, -std::numeric_limits<double>::infinity(), log_add_exp);
}

/// (values, indices); `dim_at` is the position of the argument dim. Of equal elements the last
/// counts, and so does the last NaN.
template <bool largest, int dim_at>
Values cumulative_extreme(Context& ctx) {
  const Value x = ctx.tensor(0);
  if (x.rank() == 0) return {x, ctx.b.constant_int(DType::S64, 0)};
  const int64_t dim = stablehlo::wrap_dim(ctx.integer(dim_at), x.rank());
  const Value positions = stablehlo::iota_like(x, dim, position_dtype(x.dim(dim)));
  const Values identities{largest ? ctx.b.lowest(x.dtype()) : ctx.b.highest(x.dtype()),
                          ctx.b.constant_int(positions.dtype(), 0)};
  return inclusive_scan(
      {x, positions}, identities, dim, [](const Values& left, const Values& right) {
        const Value better =
            largest ? stablehlo::ge(right[0], left[0]) : stablehlo::le(right[0], left[0]);
        const Value take = stablehlo::logical_or(better, stablehlo::is_nan(right[0]));
        return Values{stablehlo::where(take, right[0], left[0]),
                      stablehlo::where(take, right[1], left[1])};
      });
}

}  // namespace

Table scan_table() {
  return {
      {"aten::cumsum", cumsum},
      {"aten::cumprod", cumprod},
      {"aten::logcumsumexp", logcumsumexp},
      {"aten::_logcumsumexp", logcumsumexp},
      {"aten::cummax", cumulative_extreme<true, 1>},
      {"aten::cummin", cumulative_extreme<false, 1>},
      {.name = "aten::_cummax_helper", .lower = cumulative_extreme<true, 3>, .overwrites = true},
      {.name = "aten::_cummin_helper", .lower = cumulative_extreme<false, 3>, .overwrites = true},
  };
}

}  // namespace torch_tpu::lowering
