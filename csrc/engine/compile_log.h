// Why programs were compiled: the latest of them, and what each differs in from those before.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/trace.h"

namespace torch_tpu::engine {

struct CompileRecord {
  uint64_t number = 0;    // counted from the start of the process
  std::string operators;  // "add", or "42 operators: linear (12), add (8), ..."
  size_t num_operators = 0;
  std::string where;  // "train.py:12", or empty if no line of Python is known
  double milliseconds = 0;
  bool from_disk = false;
  std::string reason;  // "shape of argument 2 (other): [128] -> [129]"
  std::string hint;    // empty if there is none
};

/// Notes that the program of this trace was compiled, or loaded from the disk cache. Asks for the
/// line of Python, so that locks which that may wait for must not be held.
void note_compile(const Trace& trace, double milliseconds, bool from_disk);

/// The latest ones, oldest first. Bounded.
std::vector<CompileRecord> compile_records();
/// The same as TORCH_TPU_LOG=compiles shows it.
std::string to_string(const CompileRecord& record);

/// What tells the line of the user's program that runs on this thread, "file:line", or "".
void set_caller_hook(std::string (*hook)());

}  // namespace torch_tpu::engine
