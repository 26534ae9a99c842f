// An overload of an operator (functional, in-place or out=) tied to its one lowering by its schema.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

#include "lowering/op.h"

namespace torch_tpu::aten {

enum class ArgKind : uint8_t {
  Tensor,
  TensorList,  // Tensor[] and Tensor?[]
  Scalar,
  ScalarList,
  Float,
  FloatList,
  Int,
  IntList,
  Bool,
  BoolList,
  String,
  DType,
  Generator,
  Ignored,  // layout, device, pin_memory, memory_format: PyTorch's meta kernels have used them
};

struct FormArg {
  ArgKind kind = ArgKind::Ignored;
  bool written = false;
  /// Position in the schema that the lowering refers to; -1 for out= arguments.
  int position = -1;
  /// The value of a Scalar or float is part of the key.
  bool is_static = false;
};

enum class Style : uint8_t { Functional, Inplace, Out };

struct Form {
  Form(const lowering::Op& table_op, c10::OperatorHandle overload)
      : op(&table_op), handle(std::move(overload)) {}

  const lowering::Op* op;
  uint32_t id = 0;
  Style style = Style::Functional;
  c10::OperatorHandle handle;
  /// The overload that `op->name` names, if it is functional: its meta kernel tells the result
  /// types.
  std::optional<c10::OperatorHandle> functional;
  std::vector<FormArg> args;
  /// Arguments that the schema declares as written, in order.
  std::vector<int> writes;
  /// Form argument of each position of the lowering's schema; -1 if this form lacks it.
  std::vector<int> arg_of_position;
  int generator_arg = -1;
  std::string user_name;  // as in error messages: "add_"
};

/// All forms of an operator of the table: the named overload and those derived from it.
std::vector<Form> forms_of(const lowering::Op& op);

}  // namespace torch_tpu::aten
