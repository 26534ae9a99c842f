// Builds a program with its inputs and the results that it should give, runs it once on the plugin
// named by TORCH_TPU_TEST_PLUGIN, and compares. One program holds many checks, because compiling
// costs more than all the rest.
//
// With TORCH_TPU_TEST_TOPOLOGY (such as v6e:2x2, for a plugin that is libtpu) the programs are only
// compiled for that machine, which need not be there.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <source_location>
#include <string>
#include <vector>

#include "stablehlo/builder.h"
#include "stablehlo/math.h"

namespace torch_tpu::stablehlo {

using Numbers = std::vector<double>;
using Where = std::source_location;

inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kInf = std::numeric_limits<double>::infinity();

/// False without a plugin: the caller skips its test.
bool have_plugin();

#define SKIP_WITHOUT_PLUGIN() \
  if (!have_plugin()) GTEST_SKIP() << "TORCH_TPU_TEST_PLUGIN names no PJRT plugin"

/// True if programs are compiled and not run.
bool compile_only();

/// True if the compiler has not every operation in this dtype: a TPU splits numbers of 64 bits,
/// which some operations refuse (dots of integers, fft, select_and_scatter, reduce_precision) and
/// others take minutes to compile for.
bool lacks_operations(DType dtype);

/// What the plugin answers to a program: empty if it compiles, else its message.
std::string compile_error(const std::string& program);

/// The largest relative error that one operation may have in this dtype.
double tolerance(DType dtype);

class Program {
 public:
  Builder b;

  /// A parameter with these numbers; complex ones as re, im, re, im, ...
  Value in(DType dtype, const Dims& dims, const Numbers& numbers);
  /// A 1-D parameter.
  Value in(DType dtype, const Numbers& numbers);
  Value in_ints(DType dtype, const std::vector<int64_t>& numbers);

  /// The result must be this to a relative (and, near 0, absolute) error; NaN equals NaN, and 0
  /// is not -0 if the tolerance is 0.
  void expect(Value result, const Numbers& numbers, double tolerance = 0,
              Where where = Where::current());
  /// The same for integers, without a way through double. U64 by its bits.
  void expect_ints(Value result, const std::vector<int64_t>& numbers,
                   Where where = Where::current());

  /// Compiles and runs; adds a failure for each check that does not hold.
  void run();
  /// The results of expect(), as numbers; none if programs are only compiled.
  std::vector<Numbers> evaluate();

 private:
  struct Input {
    Type type;
    std::vector<uint8_t> bytes;
  };
  struct Check {
    Value result;
    Numbers numbers;
    std::vector<int64_t> ints;
    bool as_ints;
    double tolerance;
    Where where;
  };

  Value add_input(const Type& type, const std::vector<uint64_t>& elements);
  std::vector<std::vector<uint8_t>> execute();

  std::vector<Input> inputs_;
  std::vector<Check> checks_;
};

}  // namespace torch_tpu::stablehlo
