// Running reductions along a dimension.
#pragma once

#include <functional>

#include "lowering/context.h"

namespace torch_tpu::lowering {

/// Joins a stretch of the operands with the one right of it, element by element. Must be
/// associative.
using Join = std::function<Values(const Values& left, const Values& right)>;

/// Element i of the result joins elements 0 ... i along dim. `identities` (0-d) joined from the
/// left leave an element as it is.
Values inclusive_scan(const Values& xs, const Values& identities, int64_t dim, const Join& join);

/// The largest of elements 0 ... i, of integers.
Value cumulative_max(Value x, int64_t dim);

}  // namespace torch_tpu::lowering
