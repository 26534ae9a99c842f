// Small operands of one execution: run-time scalars, offsets, random state.
#pragma once

#include <cstdint>
#include <vector>

#include "pjrt/client.h"

namespace torch_tpu::engine {

/// The parameter words of a program on one device, as its operand tensor<count x ui32>. Must never
/// be donated. Guarded by the device's mutex.
///
/// Words that stay the same are sent once. On host devices the operand is a view of host memory of
/// ours: if every program that read it has ended, new words are written in place, which costs
/// nothing beside the microsecond of making an operand.
class WordsOperand {
 public:
  /// The operand with these words.
  PJRT_Buffer* set(pjrt::Client& client, const pjrt::Device& device, bool is_host,
                   const uint32_t* words, int32_t count);

  /// True if it helps to know of each execution whether it has ended when its start returns.
  bool watches() const { return memory_ != nullptr; }
  /// An execution that reads the operand was started, and may not have ended.
  void note_running() { memory_ = nullptr; }

 private:
  std::vector<uint32_t> words_;
  pjrt::Buffer operand_;
  void* memory_ = nullptr;  // of the operand, while nothing that runs reads it
};

}  // namespace torch_tpu::engine
