// A compiled trace, and how it runs.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/device.h"
#include "engine/trace.h"
#include "engine/words.h"
#include "pjrt/executable.h"

namespace torch_tpu::engine {

struct Program {
  std::vector<Operand> operands;
  std::vector<Output> outputs;
  std::vector<lowering::Param> params;
  int32_t param_words = 0;
  uint64_t random_blocks = 0;  // blocks of the generator's stream that a run uses
  int64_t site = 0;            // see sites.h
  /// Null if nothing is to be computed (only empty results). Programs with the same text share it.
  std::shared_ptr<const pjrt::LoadedExecutable> executable;
  /// Where the last call's results go, in order; the caller makes tensors of the Fresh ones from
  /// it.
  std::vector<Result> results;

  std::vector<WordsOperand> words;  // per device
};

/// Lowers a trace and compiles it, or takes the executable from the disk cache. Blocks.
std::shared_ptr<Program> compile(const Trace& trace, const std::string& site_name);

/// Starts a program on the device. `slots` are the storages of its trace, `words` its parameter
/// words. Replaces the values of written slots and gives the fresh results, in order, to the
/// storages `fresh`. May block while many programs are in flight.
void run(Program& program, Device& device, std::span<Storage* const> slots, const uint32_t* words,
         std::span<Storage* const> fresh);

}  // namespace torch_tpu::engine
