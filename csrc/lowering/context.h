// What a lowering sees of a call: argument values, static attributes, result types, run-time
// scalars, random bits and the index check. Argument positions are those of the schema in
// lowering::Op::name.
#pragma once

#include <array>
#include <complex>
#include <optional>
#include <string>
#include <variant>

#include "lowering/op.h"
#include "stablehlo/math.h"

namespace torch_tpu::lowering {

/// Kind of a Scalar argument, which takes part in type promotion where its value does not.
enum class ScalarKind : uint8_t { Bool, Int, Float, Complex };

/// A Scalar or float argument.
struct Scalar {
  ScalarKind kind = ScalarKind::Float;
  /// The value is part of the program's key (Op::static_args or a special value), so a lowering may
  /// use it.
  bool is_static = false;
  std::complex<double> number;  // exact for Float and Complex; set if static
  int64_t integer = 0;          // exact for Int and Bool; set if static
};

/// An argument of a call with tensors already read through their views.
/// monostate: None. Values: a list of tensors, where a null Value is an absent (None) element.
struct Argument {
  std::variant<std::monostate, Value, Values, Scalar, int64_t, bool, double, std::string, DType,
               Dims, std::vector<double>, std::vector<bool>, std::vector<Scalar>>
      data;
  /// This 0-d tensor lives on the host: it is a run-time scalar of this dtype (data is monostate).
  std::optional<DType> host_tensor;
};

/// A run-time operand that is not a tensor: written by the host into the parameter words at each
/// call.
struct Param {
  enum class Source : uint8_t {
    Scalar,      // a = argument position, b = element of a Scalar list or 0
    HostTensor,  // a 0-d CPU tensor: a = argument position, b = element of a tensor list or 0
    ViewStart,   // a = index of the tensor reference, b = which start of its view plan
    Seed,        // 64 bits
    Offset,      // 64 bits: offset of the generator, before this call
    Site,        // 64 bits: number of the operator, which an index error reports
  };
  Source source;
  int32_t call = 0;  // number of the call in the program
  int32_t a = 0, b = 0;
  DType dtype = DType::F32;  // the host writes narrow ones as F32, S32 or U32: see carrier()
  int32_t word = 0;          // first 32-bit word
  bool is_constant = false;  // its words are the ParamPack's constants, not those of the operand
};

/// Collects run-time scalars of one program in one packed operand of 32-bit words.
class ParamPack {
 public:
  /// `capacity` is the size of the operand in words. A program is lowered twice: first with plenty,
  /// to learn how many words it uses, then with exactly that.
  explicit ParamPack(int32_t capacity = 1 << 20) : capacity_(capacity) {}
  /// The layout is given, in ascending order of calls: that of programs lowered before. `constants`
  /// are the words of the parameters that are constants.
  ParamPack(int32_t capacity, std::vector<Param> layout, std::vector<uint32_t> constants)
      : capacity_(capacity),
        params_(std::move(layout)),
        values_(params_.size()),
        words_(capacity),
        constants_(std::move(constants)) {}
  /// The 0-d value of this parameter; asking twice gives the same words.
  Value get(Builder& builder, Param param);
  const std::vector<Param>& layout() const { return params_; }
  int32_t words() const { return words_; }
  /// tensor<capacity x ui32>, created with the first get(); null if there was none.
  Value operand() const { return operand_; }

 private:
  Value value_of(Builder& builder, const Param& param);

  int32_t capacity_;
  std::vector<Param> params_;
  std::vector<Value> values_;
  int32_t words_ = 0;
  std::vector<uint32_t> constants_;
  Value operand_;
};

/// One error word per device, handed from program to program: {0 or site, value, size, dim}, where
/// site is a number that the engine gives to the operator. The first error stays.
struct ErrorWord {
  Value incoming;  // tensor<4xsi64>, null until the first check
  Value current;
};

/// State of a program under construction that all its calls share.
struct ProgramState {
  Builder* builder = nullptr;
  ParamPack params;
  ErrorWord error;
  /// Of the call that is being lowered.
  stablehlo::Precision precision = stablehlo::Precision::Highest;
  /// Number of the call that is being lowered.
  int32_t call = 0;
  /// Philox counters used so far by this call (in units of 4 x 32 bits).
  uint64_t random_blocks = 0;
};

/// The dtype in which a run-time scalar travels: what has whole 32-bit words.
DType carrier(DType dtype);

class Context {
 public:
  Context(ProgramState& state, const Op& op, std::vector<Argument> args, std::vector<Type> outs,
          std::optional<DType> common);

  Builder& b;
  const Op& op;

  size_t size() const { return args_.size(); }
  /// False for None and for arguments past the end.
  bool has(size_t i) const;

  // ---- arguments. A wrong kind throws BuildError: a mistake in the lowering.
  Value tensor(size_t i) const;
  Value tensor_or(size_t i, Value otherwise) const;  // None -> otherwise
  const Values& tensors(size_t i) const;
  int64_t integer(size_t i) const;
  int64_t integer_or(size_t i, int64_t otherwise) const;
  bool flag(size_t i) const;
  bool flag_or(size_t i, bool otherwise) const;
  const Dims& ints(size_t i) const;  // int[]; an int given for int[1] is a list of one
  const std::vector<bool>& flags(size_t i) const;
  std::string_view text(size_t i) const;
  std::string_view text_or(size_t i, std::string_view otherwise) const;
  std::optional<DType> dtype(size_t i) const;

  /// A Scalar, float or 0-d host argument as a run-time value, converted to dtype on the host as
  /// PyTorch converts a Scalar. Works for static ones too (a constant).
  Value scalar(size_t i, DType dtype) const;
  Value scalar_or(size_t i, DType dtype, double otherwise) const;  // None -> constant
  Value scalar_at(size_t i, size_t element,
                  DType dtype) const;  // element of a Scalar or float list
  size_t list_size(size_t i) const;    // of a Scalar, float or tensor list
  ScalarKind scalar_kind(size_t i) const;
  /// The value of a static Scalar or float argument (Op::static_args), or of one with a special
  /// value.
  double number(size_t i) const;
  /// Set if the run-time scalar has one of the op's special values, or is static.
  std::optional<double> special(size_t i) const;

  // ---- results
  size_t num_outs() const { return outs_.size(); }
  /// Type of the k-th result, as PyTorch's meta kernel says. A lowering may return another dtype:
  /// the caller converts; the shape must be this.
  const Type& out(size_t k = 0) const { return outs_.at(k); }

  /// PyTorch's promoted dtype of the op's promoted arguments.
  DType common() const;
  /// dtype in which PyTorch computes values of this dtype: F32 for F16 and BF16 (and f8), else
  /// itself.
  static DType compute_dtype(DType dtype);
  /// How exact dots and convolutions of this dtype are. The user's setting is about float32 only;
  /// products of other dtypes do not depend on it, nor do their programs. Op::uses_precision must
  /// be set.
  stablehlo::Precision precision(DType dtype) const;

  // ---- run-time services
  /// 4 x 32 random bits for each element: `count` uniform words tensor<count x ui32>, from
  /// Philox4x32-10 with the generator's seed and offset. Every call of a program gets its own part
  /// of the stream.
  Value random_words(int64_t count) const;
  /// Notes an index outside [-size, size) (or [0, size) if not allow_negative): IndexError at the
  /// next read-back. `index` is any integer tensor; returns it wrapped (negative + size) and
  /// clamped into [0, size), so that nothing is read or written outside. Where `valid` (Pred, shape
  /// of index) is given, elements with false are not checked.
  Value checked_index(Value index, int64_t size, int64_t dim, bool allow_negative = true,
                      Value valid = {}) const;

  ProgramState& state() const { return state_; }

 private:
  const Argument& arg(size_t i) const;
  void note_error(Value bad, Value index, int64_t size, int64_t dim) const;
  [[noreturn]] void fail(size_t i, std::string_view expected) const;

  ProgramState& state_;
  std::vector<Argument> args_;
  std::vector<Type> outs_;
  std::optional<DType> common_;
};

}  // namespace torch_tpu::lowering
