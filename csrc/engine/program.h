// A compiled trace, and how it runs.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "engine/device.h"
#include "engine/trace.h"
#include "engine/words.h"
#include "pjrt/executable.h"

namespace torch_tpu::engine {

struct Program {
  /// Unique, and never used again: other programs' keys name a recorded call by it.
  uint64_t id = 0;
  Trace trace;
  std::string text;  // until it is compiled
  std::vector<Operand> operands;
  std::vector<Output> outputs;
  std::vector<lowering::Param> params;
  int32_t param_words = 0;
  uint64_t random_blocks = 0;       // blocks of the generator's stream that a run uses
  int64_t site = 0;                 // see sites.h
  std::vector<WordsOperand> words;  // per device

  /// Null until it is compiled, and if nothing is to be computed (only empty results). Programs
  /// with the same text share it.
  std::shared_ptr<const pjrt::LoadedExecutable> executable;
  std::atomic<bool> is_compiled = false;
  /// Host memory that it keeps, about: of the text until it is compiled, then of the executable.
  std::atomic<int64_t> bytes = 0;
  std::mutex compiling;

  /// Where the last call's results go, in order; the caller makes tensors of the Fresh ones.
  const std::vector<Result>& results() const { return trace.calls.back().results; }
};

/// Lowers a trace. Nothing is compiled yet.
std::shared_ptr<Program> make_program(Trace trace, const std::string& site_name);

/// Compiles the program, or takes the executable from the disk cache, if that was not done before.
/// Blocks then, and other threads that want the same program wait.
void ensure_compiled(Program& program);

/// Starts a compiled program on the device, whose mutex is held. `slots` are the storages of its
/// trace, `words` its parameter words. Replaces the values of written slots and gives the fresh
/// results, in order, to the storages `fresh`. May block while many programs are in flight.
void run(Program& program, Device& device, std::span<Storage* const> slots, const uint32_t* words,
         std::span<Storage* const> fresh);

}  // namespace torch_tpu::engine
