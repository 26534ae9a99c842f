#include "lowering/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace torch_tpu::lowering {

namespace {

/// From this size on a sum over a major dimension is made in two steps.
constexpr int64_t kBlockedSize = 512;

/// Runs of neighbouring reduced dimensions, the minor-most first. Dimensions of size 1 do not part
/// them.
std::vector<Dims> runs_of(Value x, Dims dims) {
  std::sort(dims.begin(), dims.end());
  std::vector<Dims> runs;
  for (int64_t d : dims) {
    bool adjacent = !runs.empty();
    for (int64_t i = runs.empty() ? d : runs.back().back() + 1; i < d; ++i) {
      adjacent = adjacent && x.dim(i) == 1;
    }
    if (!adjacent) runs.emplace_back();
    runs.back().push_back(d);
  }
  std::reverse(runs.begin(), runs.end());
  return runs;
}

/// Sums over a run of dimensions with others after them. XLA adds along such a dimension one by
/// one.
Value sum_blocked(Value x, const Dims& run) {
  Builder& b = x.builder();
  int64_t before = 1, after = 1;
  for (int64_t d = 0; d < run.front(); ++d) before *= x.dim(d);
  for (int64_t d = run.back() + 1; d < x.rank(); ++d) after *= x.dim(d);
  const int64_t size = x.numel() / (before * after);
  const auto block = static_cast<int64_t>(std::sqrt(static_cast<double>(size)));
  const int64_t blocks = (size + block - 1) / block;
  Dims kept = x.dims();
  kept.erase(kept.begin() + run.front(), kept.begin() + run.back() + 1);
  Value flat = b.reshape(x, {before, size, after});
  flat = b.pad(flat, b.zeros({x.dtype(), {}}), {0, 0, 0}, {0, blocks * block - size, 0});
  const Value parts = stablehlo::reduce_sum(b.reshape(flat, {before, blocks, block, after}), {2});
  return b.reshape(stablehlo::reduce_sum(b.optimization_barrier(parts), {1}), kept);
}

}  // namespace

Value widen(Value x) { return cast(x, Context::compute_dtype(x.dtype())); }

Dims dims_argument(const Context& ctx, size_t i, int64_t rank) {
  Dims out;
  if (ctx.has(i)) {
    for (int64_t d : ctx.ints(i)) out.push_back(stablehlo::wrap_dim(d, rank));
  }
  if (rank == 0) return {};
  if (out.empty()) {
    for (int64_t d = 0; d < rank; ++d) out.push_back(d);
  }
  return out;
}

Dims dim_argument(const Context& ctx, size_t i, int64_t rank) {
  if (ctx.has(i)) {
    const int64_t d = stablehlo::wrap_dim(ctx.integer(i), rank);
    return rank == 0 ? Dims{} : Dims{d};
  }
  Dims out;
  for (int64_t d = 0; d < rank; ++d) out.push_back(d);
  return out;
}

Dims other_dims(Value x, int64_t dim) {
  Dims out;
  for (int64_t d = 0; d < x.rank(); ++d) {
    if (d != dim) out.push_back(d);
  }
  return out;
}

int64_t count(Value x, const Dims& dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= x.dim(d);
  return n;
}

DType position_dtype(int64_t size) {
  return size <= std::numeric_limits<int32_t>::max() ? DType::S32 : DType::S64;
}

Value shaped(const Context& ctx, Value x, size_t k) {
  return stablehlo::reshape(x, ctx.out(k).dims);
}

Value sum(Value x, const Dims& dims, bool keepdim) {
  if (x.dtype() == DType::Pred) return stablehlo::reduce_or(x, dims, keepdim);
  if (stablehlo::is_int(x.dtype()) || x.numel() == 0) {
    return stablehlo::reduce_sum(x, dims, keepdim);
  }
  // XLA would merge the steps into one reduction: the barriers keep them apart.
  Value total = x;
  for (const Dims& run : runs_of(x, dims)) {
    if (total.id() != x.id()) total = x.builder().optimization_barrier(total);
    int64_t after = 1;
    for (int64_t d = run.back() + 1; d < total.rank(); ++d) after *= total.dim(d);
    const bool blocked = after > 1 && count(total, run) >= kBlockedSize;
    total = blocked ? sum_blocked(total, run) : stablehlo::reduce_sum(total, run);
  }
  return keepdim ? stablehlo::keep_dims(total, x.dims(), dims) : total;
}

Value mean(Value x, const Dims& dims, bool keepdim) {
  return sum(x, dims, keepdim) / static_cast<double>(count(x, dims));
}

Moments moments(Value x, const Dims& dims) {
  const Value average = mean(x, dims, true);
  const Value deviation = x - average;
  return {average, sum(deviation * deviation, dims, true)};
}

Value power_sum(Value x, double ord, const Dims& dims, bool keepdim) {
  const Value size = stablehlo::abs(x);
  if (ord == 1.0) return sum(size, dims, keepdim);
  if (ord == 2.0) return sum(size * size, dims, keepdim);
  return sum(stablehlo::pow(size, stablehlo::constant_like(size, ord)), dims, keepdim);
}

Value vector_norm(Value x, double ord, const Dims& dims, bool keepdim) {
  const Value size = stablehlo::abs(x);
  if (ord == 0.0) return sum(cast(stablehlo::ne(size, 0.0), size.dtype()), dims, keepdim);
  if (std::isinf(ord)) {
    return ord > 0 ? stablehlo::reduce_max(size, dims, keepdim)
                   : stablehlo::reduce_min(size, dims, keepdim);
  }
  // One element is its own norm, and does not overflow as its square would.
  if (count(x, dims) == 1) return sum(size, dims, keepdim);
  const Value total = power_sum(x, ord, dims, keepdim);
  if (ord == 1.0) return total;
  if (ord == 2.0) return stablehlo::sqrt(total);
  return stablehlo::pow(total, stablehlo::constant_like(total, 1.0 / ord));
}

Value position_of(Value x, Value best, int64_t dim) {
  const int64_t size = x.dim(dim);
  const Value positions = stablehlo::iota_like(x, dim, position_dtype(size));
  const Value hit = stablehlo::logical_or(stablehlo::eq(x, best), stablehlo::is_nan(x));
  const Value none = stablehlo::constant_int_like(positions, size - 1);
  return stablehlo::reduce_min(stablehlo::where(hit, positions, none), {dim}, true);
}

Value select_position(Value x, Value position, int64_t dim, bool keepdim) {
  const Value hit = stablehlo::eq(stablehlo::iota_like(x, dim, position.dtype()), position);
  const Value none = x.builder().lowest(x.dtype(), x.dims());
  return stablehlo::reduce_max(stablehlo::where(hit, x, none), {dim}, keepdim);
}

Value pick(Value x, Value index, int64_t dim) {
  Dims vectors = index.dims();
  vectors.push_back(1);
  stablehlo::GatherDims gather;
  gather.collapsed_slice_dims = {dim};
  gather.operand_batching_dims = other_dims(x, dim);
  gather.start_indices_batching_dims = stablehlo::all_dims(index);
  gather.start_index_map = {dim};
  gather.index_vector_dim = index.rank();
  gather.slice_sizes = Dims(x.dims().size(), 1);
  return x.builder().gather(x, stablehlo::reshape(index, vectors), gather);
}

Value along(Value x, int64_t dim, const Dims& dims) {
  return x.builder().broadcast_in_dim(x, dims, {dim});
}

}  // namespace torch_tpu::lowering
