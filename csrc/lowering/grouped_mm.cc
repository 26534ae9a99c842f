// Products by groups: consecutive rows make a group, and each group has a matrix of its own, as the
// tokens of a mixture of experts have. The ends of the groups are known on the device only.
#include "lowering/families.h"
#include "lowering/linalg.h"

namespace torch_tpu::lowering {
namespace {

constexpr int64_t kBlock = 128;

Value pick(Value x, Value i) {
  Builder& b = x.builder();
  return b.reshape(b.dynamic_slice(x, Values{i}, {1}), {});
}

Value transposed(Value x) {
  Dims order(x.rank());
  for (int64_t d = 0; d < x.rank(); ++d) order[d] = d;
  std::swap(order[x.rank() - 1], order[x.rank() - 2]);
  return x.builder().transpose(x, order);
}

/// Rows in blocks, which the walk goes through together with the groups: each step handles the rows
/// that a block and a group share, so that there are at most as many steps as blocks and groups.
class Walk {
 public:
  Walk(int64_t rows, Value ends)
      : b_(ends.builder()),
        rows_(rows),
        block_(std::min(rows, kBlock)),
        blocks_((rows + block_ - 1) / block_),
        groups_(ends.dim(0)),
        ends_(convert(ends, DType::S32)) {}

  Value padded(Value x) const {
    return b_.pad(x, b_.zeros({x.dtype(), {}}), {0, 0}, {blocks_ * block_ - rows_, 0});
  }
  Value rows_at(Value x, Value first) const {
    return b_.dynamic_slice(x, Values{first, zero()}, {block_, x.dim(1)});
  }
  Value zero() const { return b_.zeros({DType::S32, {}}); }
  /// Which of the block's rows, as wide as x, the group has.
  static Value select(Value inside, Value x, Value otherwise) {
    return where(x.builder().broadcast_in_dim(inside, x.dims(), {0}), x, otherwise);
  }

  /// step(accumulated, first row of the block, group, which rows of the block are the group's)
  template <class Step>
  Value run(Value accumulated, const Step& step) const {
    const auto more = [&](Builder&, std::span<const Value> v) -> Values {
      return {logical_and(lt(v[0], static_cast<double>(blocks_)),
                          lt(v[1], static_cast<double>(groups_)))};
    };
    const auto body = [&](Builder& b, std::span<const Value> v) -> Values {
      const Value first = v[0] * static_cast<double>(block_);
      const Value end = pick(ends_, v[1]);
      const Value before = pick(ends_, maximum(v[1] - 1.0, zero()));
      const Value start = where(eq(v[1], zero()), zero(), before);
      const Value row = b.iota({DType::S32, {block_}}, 0) + b.broadcast_in_dim(first, {block_}, {});
      const Value inside = logical_and(ge(row, b.broadcast_in_dim(start, {block_}, {})),
                                       lt(row, b.broadcast_in_dim(end, {block_}, {})));
      const Value ends_here = le(end, first + static_cast<double>(block_));
      const Value group_step = convert(ends_here, DType::S32);
      return {v[0] + 1.0 - group_step, v[1] + group_step, step(v[2], first, v[1], inside)};
    };
    return b_.while_loop(Values{zero(), zero(), accumulated}, more, body)[2];
  }

 private:
  Builder& b_;
  int64_t rows_, block_, blocks_, groups_;
  Value ends_;
};

/// x [rows, k] x matrices [groups, k, n] -> [rows, n]
Value rows_by_matrices(Context& ctx, Value x, Value matrices, Value ends, DType dtype) {
  Builder& b = ctx.b;
  const int64_t rows = x.dim(0), k = x.dim(1), n = matrices.dim(2);
  const Walk walk(rows, ends);
  x = walk.padded(x);
  const Value y = walk.run(
      b.zeros({dtype, {x.dim(0), n}}), [&](Value out, Value first, Value group, Value inside) {
        const Values corner{group, walk.zero(), walk.zero()};
        const Value matrix = b.reshape(b.dynamic_slice(matrices, corner, {1, k, n}), {k, n});
        const Value product = b.dot_general(walk.rows_at(x, first), matrix, {{}, {}, {1}, {0}},
                                            ctx.precision(x.dtype()), dtype);
        const Value block = Walk::select(inside, product, walk.rows_at(out, first));
        return b.dynamic_update_slice(out, block, Values{first, walk.zero()});
      });
  return b.slice(y, {0, 0}, {rows, n});
}

/// x [rows, m], y [rows, n] -> [groups, m, n]: the sum over the rows of a group.
Value sums_of_groups(Context& ctx, Value x, Value y, Value ends, DType dtype) {
  Builder& b = ctx.b;
  const int64_t m = x.dim(1), n = y.dim(1);
  const Walk walk(x.dim(0), ends);
  x = walk.padded(x);
  y = walk.padded(y);
  const auto rows_of_group = [&](Value v, Value first, Value inside) {
    const Value rows = walk.rows_at(v, first);
    return Walk::select(inside, rows, zeros_like(rows));
  };
  return walk.run(b.zeros({dtype, {ends.dim(0), m, n}}), [&](Value out, Value first, Value group,
                                                             Value inside) {
    const Values corner{group, walk.zero(), walk.zero()};
    const Value product =
        b.dot_general(rows_of_group(x, first, inside), rows_of_group(y, first, inside),
                      {{}, {}, {0}, {0}}, ctx.precision(x.dtype()), dtype);
    const Value sum = b.dynamic_slice(out, corner, {1, m, n}) + b.reshape(product, {1, m, n});
    return b.dynamic_update_slice(out, sum, corner);
  });
}

/// (a, b, ends, dtype): as torch.nn.functional.grouped_mm, where a or b has two dimensions.
Values grouped_mm(Context& ctx) {
  const Value a = ctx.tensor(0), b = ctx.tensor(1), ends = ctx.tensor(2);
  const DType dtype = Context::compute_dtype(a.dtype());
  if (ctx.out().numel() == 0 || a.numel() == 0 || b.numel() == 0) {
    return {ctx.b.zeros({dtype, ctx.out().dims})};
  }
  if (a.rank() == 2 && b.rank() == 2) {
    return {sums_of_groups(ctx, transposed(a), b, ends, dtype)};
  }
  if (a.rank() == 2) return {rows_by_matrices(ctx, a, b, ends, dtype)};
  return {transposed(rows_by_matrices(ctx, transposed(b), transposed(a), ends, dtype))};
}

}  // namespace

Table grouped_mm_table() {
  return {{.name = "torch_tpu::grouped_mm", .lower = grouped_mm, .uses_precision = true}};
}

}  // namespace torch_tpu::lowering
