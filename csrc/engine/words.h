// Small operands of one execution: run-time scalars, offsets, random state.
#pragma once

#include <cstdint>

#include "pjrt/client.h"

namespace torch_tpu::engine {

/// A buffer tensor<count x ui32> on the device. On host devices (`is_host`) it is a view of a
/// recycled slot of host memory, which costs half of a copy; the runtime gives the slot back when
/// the last program that reads it has ended. Such an operand must never be donated. Thread-safe.
pjrt::Buffer words_operand(pjrt::Client& client, const pjrt::Device& device, bool is_host,
                           const uint32_t* words, int32_t count);

}  // namespace torch_tpu::engine
