// Between the element types of StableHLO and of PJRT.
#pragma once

#include <pjrt_c_api.h>

#include "stablehlo/types.h"

namespace torch_tpu::engine {

PJRT_Buffer_Type to_pjrt(stablehlo::DType dtype);

}  // namespace torch_tpu::engine
