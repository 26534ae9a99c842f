// Conversion between dtypes as PyTorch does it (XLA's own differs for Pred, integers and complex).
#pragma once

#include "stablehlo/math.h"

namespace torch_tpu::lowering {

/// x.to(dtype) as PyTorch's CPU kernels convert:
/// to Pred: x != 0 (NaN is true); complex to real: the real part; real to complex: imaginary 0;
/// float to integer: toward zero, wrapping like C for narrow integers instead of saturating;
/// integer to integer: wraps; wide floats to F16/BF16/f8: round to nearest even.
stablehlo::Value cast(stablehlo::Value x, stablehlo::DType dtype);

}  // namespace torch_tpu::lowering
