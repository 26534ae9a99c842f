// The table of operators: each has one lowering, whatever form or schedule calls it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "stablehlo/builder.h"

namespace torch_tpu::lowering {

using stablehlo::Builder;
using stablehlo::Dims;
using stablehlo::DType;
using stablehlo::Type;
using stablehlo::Value;
using stablehlo::Values;

class Context;

/// The meaning of an operator: from argument values to result values, in logical shapes.
using Lowering = Values (*)(Context&);

/// One row of the operator table.
///
/// `name` is the schema that the argument positions refer to: the functional overload where there
/// is one ("aten::add.Tensor"); its in-place and out= overloads are derived from it by their
/// schemas. Otherwise the in-place overload ("aten::fill_.Scalar"), whose results are the written
/// arguments in order, lists flattened.
struct Op {
  std::string_view name;
  Lowering lower = nullptr;
  /// Positions of Scalar and float arguments whose value decides the program (an axis of the key).
  /// All other Scalars and floats are run-time operands.
  std::vector<int> static_args = {};
  /// Run-time scalars become static when they have one of these values (x ** 2 is x * x).
  std::vector<double> special_values = {};
  /// Positions that take part in type promotion; empty: every tensor and Scalar.
  std::vector<int> promoted_args = {};
  /// Arguments that the schema does not declare as written but the operator updates (running
  /// statistics of batch norm). The lowering returns their new values after its results, one for
  /// each of these that is present (not None).
  std::vector<int> extra_writes = {};
  /// The in-place forms do not read what they overwrite (fill_, random fills).
  bool overwrites = false;
  /// Elements of the written tensor may share memory (an expanded tensor): all get one value.
  bool allows_overlap = false;
  /// The lowering asks Context::precision(), so that the setting is an axis of the key.
  bool uses_precision = false;
};

/// Operators of one family. Each family file defines one of these and registry.cc lists them.
using Table = std::vector<Op>;

/// All operators, in the order of the families.
std::span<const Op> all_ops();

}  // namespace torch_tpu::lowering
