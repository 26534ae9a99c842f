#include "lowering/gather_scatter.h"

#include "lowering/reduce.h"
#include "lowering/scan.h"

namespace torch_tpu::lowering {
namespace {

using stablehlo::Body;
using stablehlo::GatherDims;
using stablehlo::ScatterDims;

Dims others(int64_t rank, int64_t dim) {
  Dims dims;
  for (int64_t i = 0; i < rank; ++i)
    if (i != dim) dims.push_back(i);
  return dims;
}

/// The first elements of x along every dimension.
Value leading_part(Value x, const Dims& sizes) {
  return x.dims() == sizes ? x : x.builder().slice(x, Dims(sizes.size(), 0), sizes);
}

Value combine_pair(Value old, Value update, Combine combine) {
  const bool pred = old.dtype() == DType::Pred;
  switch (combine) {
    case Combine::Set:
      return update;
    case Combine::Add:
      return pred ? logical_or(old, update) : old + update;
    case Combine::Mul:
      return pred ? logical_and(old, update) : old * update;
    case Combine::Max:
      return pred ? logical_or(old, update) : maximum(old, update);
    case Combine::Min:
      return pred ? logical_and(old, update) : minimum(old, update);
  }
  throw stablehlo::BuildError("scatter: unknown combination");
}

}  // namespace

Value narrow_index(Value index, int64_t size) { return convert(index, position_dtype(size)); }

Value take(Value x, int64_t dim, Value index) {
  Builder& b = x.builder();
  GatherDims g;
  for (int64_t i = 0; i < x.rank(); ++i)
    if (i != dim) g.offset_dims.push_back(i < dim ? i : i + index.rank() - 1);
  g.collapsed_slice_dims = {dim};
  g.start_index_map = {dim};
  g.index_vector_dim = index.rank();
  g.slice_sizes = x.dims();
  g.slice_sizes[dim] = 1;
  Dims dims(x.dims().begin(), x.dims().begin() + dim);
  dims.insert(dims.end(), index.dims().begin(), index.dims().end());
  dims.insert(dims.end(), x.dims().begin() + dim + 1, x.dims().end());
  if (stablehlo::numel(dims) == 0 || x.numel() == 0) return b.zeros({x.dtype(), dims});
  return b.gather(x, narrow_index(index, x.dim(dim)), g);
}

Value gather_along(Value x, int64_t dim, Value index) {
  Builder& b = x.builder();
  if (index.numel() == 0 || x.numel() == 0) return b.zeros({x.dtype(), index.dims()});
  Dims part = index.dims();
  part[dim] = x.dim(dim);
  GatherDims g;
  g.collapsed_slice_dims = {dim};
  g.operand_batching_dims = others(x.rank(), dim);
  g.start_indices_batching_dims = g.operand_batching_dims;
  g.start_index_map = {dim};
  g.index_vector_dim = index.rank();
  g.slice_sizes = Dims(x.rank(), 1);
  return b.gather(leading_part(x, part), narrow_index(index, x.dim(dim)), g);
}

Value combine_scatter(Value x, Value index, Value updates, const ScatterDims& dims,
                      Combine combine) {
  const DType dtype = x.dtype();
  const bool wide = (combine == Combine::Add || combine == Combine::Mul) &&
                    (dtype == DType::F16 || dtype == DType::BF16);
  if (wide) {
    x = convert(x, DType::F32);
    updates = convert(updates, DType::F32);
  }
  const Body body = [combine](Builder&, std::span<const Value> v) -> Values {
    return {combine_pair(v[0], v[1], combine)};
  };
  return convert(x.builder().scatter(x, index, updates, dims, body), dtype);
}

Value scatter_along(Value x, int64_t dim, Value index, Value updates, Combine combine) {
  if (index.numel() == 0 || x.numel() == 0) return x;
  // As a scatter into a flat x: XLA knows that one best.
  const int64_t rank = x.rank();
  Value flat = narrow_index(index, x.numel());
  int64_t stride = 1;
  Value offset;
  for (int64_t d = rank - 1; d >= 0; stride *= x.dim(d), --d) {
    if (x.dim(d) == 1 && d != dim) continue;
    Value part = d == dim ? flat : stablehlo::iota_like(flat, d, flat.dtype());
    if (stride != 1) part = part * stablehlo::constant_int_like(part, stride);
    offset = offset ? offset + part : part;
  }
  ScatterDims s;
  s.inserted_window_dims = {0};
  s.scatter_dims_to_operand_dims = {0};
  s.index_vector_dim = 1;
  const Value result = combine_scatter(flatten(x), flatten(offset),
                                       flatten(leading_part(updates, index.dims())), s, combine);
  return reshape(result, x.dims());
}

Value scatter_slices(Value x, int64_t dim, Value index, Value updates, Combine combine) {
  if (updates.numel() == 0 || x.numel() == 0) return x;
  ScatterDims s;
  s.update_window_dims = others(x.rank(), dim);
  s.inserted_window_dims = {dim};
  s.scatter_dims_to_operand_dims = {dim};
  s.index_vector_dim = 1;
  return combine_scatter(x, narrow_index(index, x.dim(dim)), updates, s, combine);
}

Value combine_identity(Builder& b, Combine combine, DType dtype, const Dims& dims) {
  switch (combine) {
    case Combine::Mul:
      return b.constant_int(dtype, 1, dims);
    case Combine::Max:
      return b.lowest(dtype, dims);
    case Combine::Min:
      return b.highest(dtype, dims);
    default:
      return b.zeros({dtype, dims});
  }
}

Reduction reduction_named(std::string_view name) {
  if (name == "sum" || name == "add") return {Combine::Add};
  if (name == "prod" || name == "multiply") return {Combine::Mul};
  if (name == "mean") return {Combine::Add, /*mean=*/true};
  if (name == "amax") return {Combine::Max};
  if (name == "amin") return {Combine::Min};
  throw stablehlo::BuildError("unknown reduction " + std::string(name));
}

Value mean_of(Value sum, Value count) {
  if (sum.dtype() == DType::Pred) return sum;
  const Value divisor =
      broadcast_to(convert(maximum(count, stablehlo::ones_like(count)), sum.dtype()), sum.dims());
  const Value quotient = sum / divisor;
  if (!stablehlo::is_signed_int(sum.dtype())) return quotient;
  return where(lt(remainder(sum, divisor), 0.0), quotient - 1.0, quotient);
}

Value prefix_sum(Value x) {
  if (x.numel() == 0) return x;
  const Value zero = x.builder().zeros({x.dtype(), {}});
  return inclusive_scan({x}, {zero}, x.rank() - 1, [](const Values& left, const Values& right) {
    return Values{left[0] + right[0]};
  })[0];
}

Compaction compact(Value mask) {
  Builder& b = mask.builder();
  const int64_t size = mask.dim(0);
  const DType dtype = position_dtype(size);
  if (size == 0) return {b.zeros({dtype, {0}}), b.zeros({dtype, {}})};
  const Value upto = prefix_sum(convert(mask, dtype));
  const Value outside = stablehlo::constant_int_like(upto, -1);
  return {where(mask, upto - 1.0, outside), b.reshape(slice_dim(upto, 0, size - 1, size), {})};
}

Value move_together(Value x, const Compaction& to) {
  return scatter_along(zeros_like(x), 0, to.position, x, Combine::Set);
}

}  // namespace torch_tpu::lowering
