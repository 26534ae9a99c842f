// Counter-based random bits: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3", SC 2011), written in plain integer arithmetic so that every plugin draws the same numbers.
#pragma once

#include "stablehlo/math.h"

namespace torch_tpu::lowering {

/// tensor<count x ui32>: words first_block*4, first_block*4 + 1, ... of the stream whose key is
/// `seed` and whose counter starts at `offset` (both 0-d ui64; one unit of offset is one block of
/// four words).
stablehlo::Value philox_words(stablehlo::Value seed, stablehlo::Value offset, uint64_t first_block,
                              int64_t count);

}  // namespace torch_tpu::lowering
