// Ranges, identity matrices and other tensors made from a few numbers. PyTorch's operators return a
// size that depends on those numbers; csrc/aten/factory.cc computes it and fills a tensor with one
// of these operators, so that a range of any start and step of one length is one program.
#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/gather_scatter.h"

namespace torch_tpu::lowering {
namespace {

/// dtype in which a range is computed: exact for integers, double for floats as in PyTorch's
/// kernels.
DType range_dtype(DType dtype) {
  if (is_complex(dtype)) return DType::C128;
  return is_float(dtype) ? DType::F64 : DType::S64;
}

/// 0, 1, 2, ...
Value counting(Builder& b, DType dtype, const Dims& dims) {
  if (!is_complex(dtype)) return b.iota({dtype, dims}, 0);
  return convert(b.iota({DType::S64, dims}, 0), dtype);
}

/// start + i * step
Values arange(Context& ctx) {
  const Dims& dims = ctx.out().dims;
  const DType dtype = range_dtype(ctx.out().dtype);
  const Value start = broadcast_to(ctx.scalar(1, dtype), dims);
  const Value step = broadcast_to(ctx.scalar(2, dtype), dims);
  return {start + counting(ctx.b, dtype, dims) * step};
}

/// A bound of the steps: for integers it is cut to an integer first.
Value bound(const Context& ctx, size_t i, DType dtype) {
  const DType out = ctx.out().dtype;
  return is_float(out) || is_complex(out) ? ctx.scalar(i, dtype)
                                          : convert(ctx.scalar(i, DType::S64), dtype);
}

/// Even steps from start to end, the second half counted from the end so that both are met exactly.
Value even_steps(Context& ctx, DType dtype) {
  Builder& b = ctx.b;
  const Dims& dims = ctx.out().dims;
  const int64_t steps = stablehlo::numel(dims);
  const Value start = bound(ctx, 1, dtype), end = bound(ctx, 2, dtype);
  if (steps <= 1) return broadcast_to(start, dims);
  // XLA would multiply by the reciprocal of a constant, which is not the same number.
  const Value intervals =
      b.optimization_barrier(stablehlo::constant_like(start, static_cast<double>(steps - 1)));
  const Value step = (end - start) / intervals;
  const Value i = counting(b, dtype, dims);
  const Value last = stablehlo::constant_like(i, static_cast<double>(steps - 1));
  const Value first_half = lt(b.iota({DType::S64, dims}, 0), static_cast<double>(steps / 2));
  return where(first_half, start + step * i, end - step * (last - i));
}

/// dtype of the steps: double for integers.
DType steps_dtype(DType dtype) {
  return is_float(dtype) || is_complex(dtype) ? Context::compute_dtype(dtype) : DType::F64;
}

Values linspace(Context& ctx) { return {even_steps(ctx, steps_dtype(ctx.out().dtype))}; }

Values logspace(Context& ctx) {
  const DType dtype = ctx.out().dtype;
  const Value exponent = even_steps(ctx, is_complex(dtype) ? DType::C128 : DType::F64);
  const Value base = broadcast_to(ctx.scalar(3, exponent.dtype()), exponent.dims());
  const Value power = pow(base, exponent);
  if (is_float(dtype) || is_complex(dtype)) return {power};
  // A power that is an integer may come out a little below it: not to be cut to the integer before.
  constexpr double above_rounding = 1 + 0x1p-50;
  return {power * above_rounding};
}

Values eye(Context& ctx) {
  const Type type{DType::S32, ctx.out().dims};
  return {eq(ctx.b.iota(type, 0), ctx.b.iota(type, 1))};
}

/// Rows and columns of the elements of a triangle of a matrix, row by row: [2, count].
Values triangle_indices(Context& ctx) {
  const int64_t rows = ctx.integer(1), columns = ctx.integer(2), offset = ctx.integer(3);
  const Type matrix{DType::S64, {rows, columns}};
  const int64_t count = ctx.out().dims.at(1);
  if (count == 0) return {ctx.b.zeros({DType::S64, {2, 0}})};
  const Value row = ctx.b.iota(matrix, 0), column = ctx.b.iota(matrix, 1);
  const Value distance = column - row;
  const Value limit = stablehlo::constant_int_like(distance, offset);
  const Value inside = ctx.flag(4) ? ge(distance, limit) : le(distance, limit);
  const Compaction to = compact(flatten(inside));
  Values parts;
  for (const Value v : {row, column})
    parts.push_back(unsqueeze(slice_dim(move_together(flatten(v), to), 0, 0, count), 0));
  return {ctx.b.concatenate(parts, 0)};
}

}  // namespace

Table factory_table() {
  return {
      {.name = "torch_tpu::arange_", .lower = arange, .overwrites = true},
      {.name = "torch_tpu::linspace_", .lower = linspace, .overwrites = true},
      {.name = "torch_tpu::logspace_", .lower = logspace, .overwrites = true},
      {.name = "torch_tpu::eye_", .lower = eye, .overwrites = true},
      {.name = "torch_tpu::triangle_indices_", .lower = triangle_indices, .overwrites = true},
  };
}

}  // namespace torch_tpu::lowering
