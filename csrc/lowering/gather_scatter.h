// Reading and writing at run-time positions: the few forms of gather and scatter that operators
// need. Index values must lie in range here (Context::checked_index).
#pragma once

#include <string_view>

#include "stablehlo/math.h"

namespace torch_tpu::lowering {

/// How a scatter combines an element with an update. On Pred: Add and Max are "or", Mul and Min
/// "and". Set: of several updates of one element the last wins.
enum class Combine : uint8_t { Set, Add, Mul, Max, Min };

/// The index in position_dtype(size) (reduce.h).
stablehlo::Value narrow_index(stablehlo::Value index, int64_t size);

/// x.index_select(dim, index): the dimensions of index (any rank) take the place of dim.
stablehlo::Value take(stablehlo::Value x, int64_t dim, stablehlo::Value index);

/// torch.gather: index has the rank of x (at least 1) and, except at dim, at most its sizes.
stablehlo::Value gather_along(stablehlo::Value x, int64_t dim, stablehlo::Value index);

/// torch.scatter: x with the updates combined in at the positions that gather_along reads. Updates
/// have at least the sizes of index. F16 and BF16 sums and products accumulate in F32. In a 1-D x,
/// positions outside, such as -1, are left out.
stablehlo::Value scatter_along(stablehlo::Value x, int64_t dim, stablehlo::Value index,
                               stablehlo::Value updates, Combine combine);

/// x with whole slices combined in: x[.., index[i], ..] with updates[.., i, ..], for a 1-D index.
/// Positions outside of x, such as -1, are left out.
stablehlo::Value scatter_slices(stablehlo::Value x, int64_t dim, stablehlo::Value index,
                                stablehlo::Value updates, Combine combine);

/// Scatter with the accumulation and the combination described above, for any dimension numbers.
stablehlo::Value combine_scatter(stablehlo::Value x, stablehlo::Value index,
                                 stablehlo::Value updates, const stablehlo::ScatterDims& dims,
                                 Combine combine);

/// The value that leaves every number as it is: 0, 1, lowest, highest (Set: 0).
stablehlo::Value combine_identity(stablehlo::Builder& b, Combine combine, stablehlo::DType dtype,
                                  const stablehlo::Dims& dims = {});

/// Sums of x[.., 0 .. i] along the last dimension, in the dtype of x.
stablehlo::Value prefix_sum(stablehlo::Value x);

/// A reduction by its name in index_reduce, scatter_reduce or scatter ("sum", "add", "mean",
/// "amax", ...).
struct Reduction {
  Combine combine;
  bool mean = false;  // a sum to be divided by mean_of
};
Reduction reduction_named(std::string_view name);
/// sum / count, integers rounded down; where count is 0 the sum as it is.
stablehlo::Value mean_of(stablehlo::Value sum, stablehlo::Value count);

/// Where the true elements of a 1-D mask go if they are moved together: position[i] is the number
/// of true elements before i where mask[i], and -1 (outside) elsewhere.
struct Compaction {
  stablehlo::Value position;
  stablehlo::Value count;  // 0-d, same dtype
};
Compaction compact(stablehlo::Value mask);

/// The elements of a 1-D x where the compaction's mask is true, moved together, then zeros.
stablehlo::Value move_together(stablehlo::Value x, const Compaction& to);

}  // namespace torch_tpu::lowering
