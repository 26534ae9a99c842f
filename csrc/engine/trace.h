// Recorded operators: what a schedule turns into one program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "lowering/context.h"
#include "lowering/view.h"

namespace torch_tpu::engine {

using stablehlo::Dims;
using stablehlo::DType;
using stablehlo::Type;

/// A tensor argument or target: a view of the storage in a slot of the trace.
struct TensorRef {
  int slot = -1;  // -1: absent (None in a list); Empty views need no slot
  lowering::ViewSpec view;
  int first_start = 0;  // position of its run-time starts in the call's list of starts
};

struct TraceArgument {
  std::variant<std::monostate, TensorRef, std::vector<TensorRef>, lowering::Scalar, int64_t, bool,
               double, std::string, DType, Dims, std::vector<double>, std::vector<bool>,
               std::vector<lowering::Scalar>>
      data;
  std::optional<DType> host_tensor;
};

/// Where a result goes.
struct Result {
  enum class Kind : uint8_t { Undefined, Fresh, Write };
  Kind kind = Kind::Fresh;
  Type type;         // Fresh: the new tensor, logical shape
  Dims strides;      // Fresh: its strides, dense
  Type base;         // Fresh: of its storage, in memory order
  TensorRef target;  // Write
};

/// What decides the program of a call, in the user's terms: one axis of its key.
struct KeyPart {
  enum class Kind : uint8_t { Shape, DType, Layout, Number, Setting, Other };
  Kind kind;
  std::string what;   // "shape of argument 2 (other)"
  std::string value;  // "[128, 4]"
};

/// A call as reports show it.
struct CallInfo {
  std::string name;  // of the operator, as the user wrote it
  std::vector<KeyPart> parts;
};

/// One recorded operator.
struct Call {
  const lowering::Op* op = nullptr;
  std::vector<TraceArgument> args;
  std::vector<Type>
      outs;  // as PyTorch's meta kernel tells; undefined results have dtype F32, no dims
  std::vector<Result> results;  // those of the schema, then one for each extra write
  std::optional<DType> common;
  stablehlo::Precision precision = stablehlo::Precision::Highest;
  std::shared_ptr<const CallInfo> info;  // null: not from a user's call
};

struct Trace {
  /// Of the program, as profiles show it; the operator's if it is empty.
  std::string name;
  std::vector<Type> slots;  // base types of the storages
  std::vector<Call> calls;
  /// Slots whose last value nobody will read; none if empty.
  std::vector<bool> unwanted;
  /// Slots that hold nothing before the program; it makes zeros for one that it reads so. None if
  /// empty.
  std::vector<bool> undefined;
  /// The run-time numbers of all calls, if they were laid out before: their programs were lowered
  /// one by one.
  std::optional<std::vector<lowering::Param>> params;
  int32_t param_words = 0;  // of `params`
  /// Words of those parameters that are constants of the program.
  std::vector<uint32_t> constants;
  /// For compilers' reports: the text names the operator of each operation.
  bool names_operators = false;
};

/// Operand `i` of a program.
struct Operand {
  enum class Kind : uint8_t { Slot, Params, Error };
  Kind kind;
  int slot = -1;
};

/// Result `i` of a program.
struct Output {
  enum class Kind : uint8_t { Fresh, Slot, Error };
  Kind kind;
  int index = -1;  // Fresh: position among fresh results; Slot: the slot that gets it
};

/// Text of a trace and how to call it.
struct Module {
  std::string text;
  std::vector<Operand> operands;
  std::vector<Output> outputs;
  std::vector<lowering::Param> params;
  int32_t param_words = 0;
  uint64_t random_blocks = 0;
};

/// Lowers a trace. Throws stablehlo::BuildError if a lowering is wrong.
Module lower(const Trace& trace);

}  // namespace torch_tpu::engine
