// Between the dtypes of torch and of StableHLO.
#pragma once

#include <c10/core/ScalarType.h>

#include "stablehlo/types.h"

namespace torch_tpu::aten {

/// Throws TypeError, naming the dtype, for those that the device does not have (quantized,
/// complex32, ...).
stablehlo::DType to_hlo(c10::ScalarType dtype);
/// False for the dtypes that to_hlo() refuses.
bool has_dtype(c10::ScalarType dtype);
c10::ScalarType to_torch(stablehlo::DType dtype);

}  // namespace torch_tpu::aten
