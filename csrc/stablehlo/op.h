// Internal: one operation under construction, and the state of a builder.
#pragma once

#include <deque>
#include <initializer_list>
#include <string>
#include <unordered_map>

#include "stablehlo/builder.h"
#include "stablehlo/text.h"

namespace torch_tpu::stablehlo {

using Types = std::vector<Type>;

/// May a region's body use values made outside of it?
enum class Capture : uint8_t {
  /// XLA turns the bodies of reductions, sorts and scatters into computations of scalars, which
  /// have no way to take another operand.
  No,
  Yes,
};

/// What made a value, where XLA's simplifier looks at it.
enum class Made : uint8_t { Other, Constant, Exp, Power, Multiply, Sum, Divide, Rsqrt };

struct Builder::Impl {
  struct Entry {
    Type type;
    int32_t frame;   // where the value lives
    int32_t name;    // %name, or the number of the parameter
    int32_t result;  // which result of a multi-result operation; kSingle, kParameter
    Made made = Made::Other;
    int32_t part = 0;  // see Builder::begin_part
  };
  static constexpr int32_t kSingle = -1;
  static constexpr int32_t kParameter = -2;

  /// The body of main, or of a region that is being built.
  struct Frame {
    int32_t id;
    Capture capture;
    std::string text;
    // Constants and iotas already here, by their text: a program says each once.
    std::unordered_map<std::string, Value> constants;
  };

  std::deque<Entry> values;         // deques: references stay valid
  std::deque<Frame> frames;         // innermost last
  std::vector<int32_t> parameters;  // ids of values
  std::vector<int64_t> aliases;     // per parameter: number of the result, or -1
  int32_t frames_made = 0;
  int32_t part = 0;
  std::string location;
  std::unordered_map<int32_t, std::pair<Value, Dims>> transposes;  // by id of the result

  int32_t add_value(const Type& type, int32_t frame, int32_t name, int32_t result);
  void append_name(std::string& out, int32_t id) const;
  void append_indent(std::string& out) const { out.append(2 + 2 * frames.size(), ' '); }
  bool visible(int32_t id) const;
};

/// Writes `%r = "name"(operands) <{attributes}> ({regions}) : (types) -> types`.
class Op {
 public:
  Op(Builder& builder, std::string_view name, std::span<const Value> operands = {});
  Op(Builder& builder, std::string_view name, std::initializer_list<Value> operands)
      : Op(builder, name, std::span<const Value>(operands.begin(), operands.size())) {}

  /// Throws BuildError: `name: message (operands: types)`.
  [[noreturn]] void fail(std::string_view message) const;
  /// Without the list of operands: for messages that name them.
  [[noreturn]] void fail_plain(std::string_view message) const;
  void require(bool ok, std::string_view message) const {
    if (!ok) fail(message);
  }
  /// Every number in [0, limit), none twice.
  void require_distinct(const Dims& dims, int64_t limit, std::string_view what) const;
  void require_sorted(const Dims& dims, std::string_view what) const;

  /// `name = text`.
  void attribute(std::string_view name, std::string_view text);
  /// `name = array<i64: ...>`.
  void attribute(std::string_view name, const Dims& values);
  void attribute(std::string_view name, int64_t value);
  void attribute_bool(std::string_view name, bool value);
  void attribute_padding(const Dims& low, const Dims& high);

  /// Builds a region; its results must be of these types (any, if null). Returns their types.
  Types region(std::span<const Type> arguments, Capture capture, const Body& body,
               std::string_view what, const Types* expected);

  Value result(const Type& type);
  Values results(std::span<const Type> types);
  /// Reuses an equal operation of the same region: for constants and iotas.
  Value shared_result(const Type& type);

 private:
  std::string signature(std::span<const Type> types) const;

  Builder& builder_;
  Builder::Impl& impl_;
  std::string name_;
  Values operands_;
  std::string attributes_;
  std::string regions_;
};

/// The operands of an elementwise operation, behind barriers where XLA would else combine it with
/// the operation of another part that made them, so that other numbers come out.
Values fenced(Builder& builder, const Builder::Impl& impl, std::string_view name, Values operands);
/// What an operation of this name makes of these operands.
Made made_by(const Builder::Impl& impl, std::string_view name, std::span<const Value> operands);

/// The 0-d type of each value's dtype.
Types scalars(std::span<const Value> values);

}  // namespace torch_tpu::stablehlo
