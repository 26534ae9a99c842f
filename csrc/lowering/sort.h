// Sorting in PyTorch's order: NaN is greater than every number and equal to NaN, -0 equals 0.
#pragma once

#include "stablehlo/math.h"

namespace torch_tpu::lowering {

struct Sorted {
  stablehlo::Value values;
  stablehlo::Value positions;  // where they were before, in position_dtype
};

/// Stable sort of a real x (at least 1-d) along dim.
Sorted sort_along(stablehlo::Value x, int64_t dim, bool descending);

/// Only the positions.
stablehlo::Value sorted_positions(stablehlo::Value x, int64_t dim, bool descending);

/// For each value the position in the sorted sequence before which it can be inserted: the first
/// (left) or the last (right) one. sequence: [n] or [batch..., n]; values: any shape, or [batch...,
/// m]. With `sorter` the sequence is sequence[sorter]. Result in position_dtype(n).
stablehlo::Value search_sorted(stablehlo::Value sequence, stablehlo::Value values, bool right,
                               stablehlo::Value sorter = {});

}  // namespace torch_tpu::lowering
