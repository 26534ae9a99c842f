// What reductions, normalizations and losses share: dimensions, accurate sums, moments, extrema,
// picks.
#pragma once

#include "lowering/cast.h"
#include "lowering/context.h"

namespace torch_tpu::lowering {

/// x in the dtype in which PyTorch computes values of its dtype: F32 for narrower floats.
Value widen(Value x);

/// The dimensions that argument i (int[]) names, wrapped; None or an empty list: all of them.
Dims dims_argument(const Context& ctx, size_t i, int64_t rank);
/// The dimension that argument i (int) names; none of a 0-d tensor; None: all of them.
Dims dim_argument(const Context& ctx, size_t i, int64_t rank);
/// All dimensions but `dim`.
Dims other_dims(Value x, int64_t dim);
/// Elements that go into one result.
int64_t count(Value x, const Dims& dims);
/// Dtype that holds a position along a dimension of this size: S32 where it can.
DType position_dtype(int64_t size);
/// With the shape of result k, which differs from a reduced shape by dimensions of size 1.
Value shaped(const Context& ctx, Value x, size_t k = 0);

/// Sum. Floats: the error grows with the root of the number of elements at most, as in PyTorch,
/// where a plain reduction may add one element after the other. The operand is not widened.
Value sum(Value x, const Dims& dims, bool keepdim = false);
/// sum / count; NaN of nothing.
Value mean(Value x, const Dims& dims, bool keepdim = false);

struct Moments {
  Value mean;
  Value squares;  // sum of the squared deviations from the mean
};
/// In two passes, of a real x, with the reduced dimensions kept.
Moments moments(Value x, const Dims& dims);

/// (sum |x|^ord)^(1/ord), with its limits for 0 and infinities; the result is real.
Value vector_norm(Value x, double ord, const Dims& dims, bool keepdim = false);
/// sum |x|^ord; of 0 the number of elements.
Value power_sum(Value x, double ord, const Dims& dims, bool keepdim = false);

/// Position (position_dtype) of the first element along dim that is `best`, the kept maximum or
/// minimum of x along dim, or of the first NaN.
Value position_of(Value x, Value best, int64_t dim);
/// x at one position for each result; `position` has the shape of x with size 1 at dim.
Value select_position(Value x, Value position, int64_t dim, bool keepdim = false);

/// x[..., index[...], ...]: index has the other dimensions of x and lies in the range of dim.
Value pick(Value x, Value index, int64_t dim);
/// A 1-D x spread along dimension `dim` of `dims`.
Value along(Value x, int64_t dim, const Dims& dims);

}  // namespace torch_tpu::lowering
