// Builds one StableHLO module: `func.func @main` with parameters and results.
//
// Every method checks the types of its operands and infers the type of its result, so that a wrong
// lowering fails here, with the operator's name, and not inside XLA. The builder appends text as it
// goes; a Value is a small handle into it. A builder is used by one thread.
#pragma once

#include <complex>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stablehlo/types.h"

namespace torch_tpu::stablehlo {

class Builder;
class Op;  // internal: writes one operation

/// A value of the program under construction. Cheap to copy; lives as long as its builder.
class Value {
 public:
  Value() = default;
  Value(Builder* builder, int32_t id) : builder_(builder), id_(id) {}

  const Type& type() const;
  DType dtype() const { return type().dtype; }
  const Dims& dims() const { return type().dims; }
  int64_t dim(int64_t i) const { return type().dims.at(i); }
  int64_t rank() const { return type().rank(); }
  int64_t numel() const { return type().numel(); }
  Builder& builder() const { return *builder_; }
  int32_t id() const { return id_; }
  explicit operator bool() const { return builder_ != nullptr; }

 private:
  Builder* builder_ = nullptr;
  int32_t id_ = -1;
};

using Values = std::vector<Value>;
/// Makes the body of a region from its block arguments.
using Body = std::function<Values(Builder&, std::span<const Value>)>;

/// A mistake in a lowering: operands whose types do not fit. The message names the operation.
class BuildError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

enum class Compare : uint8_t { EQ, NE, LT, LE, GT, GE };
/// Precision of dots and convolutions: on a TPU 1, 3 or 6 passes of bf16.
enum class Precision : uint8_t { Default, High, Highest };
/// Total orders NaN above every number (and -0 below +0); Partial is IEEE.
enum class CompareKind : uint8_t { Partial, Total };

struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_contract, rhs_contract;
};

struct Window {
  Dims size;                            // window_dimensions, one entry per operand dimension
  Dims strides;                         // empty: all 1
  Dims base_dilation, window_dilation;  // empty: all 1
  Dims pad_low, pad_high;               // empty: all 0
};

struct ConvDims {
  int64_t input_batch, input_feature, kernel_input, kernel_output, output_batch, output_feature;
  Dims input_spatial, kernel_spatial, output_spatial;
};

struct ConvConfig {
  ConvDims dims;
  // Per spatial dimension; empty: 1, or 0 for the padding, or no reversal.
  Dims strides, pad_low, pad_high, lhs_dilation, rhs_dilation;
  std::vector<bool> window_reversal;
  int64_t feature_groups = 1, batch_groups = 1;
  Precision precision = Precision::Highest;
};

struct GatherDims {
  Dims offset_dims, collapsed_slice_dims, operand_batching_dims, start_indices_batching_dims,
      start_index_map;
  int64_t index_vector_dim = 0;
  Dims slice_sizes;
  bool indices_are_sorted = false;
};

struct ScatterDims {
  Dims update_window_dims, inserted_window_dims, input_batching_dims, scatter_indices_batching_dims,
      scatter_dims_to_operand_dims;
  int64_t index_vector_dim = 0;
  bool indices_are_sorted = false;
  bool unique_indices = false;
};

class Builder {
 public:
  Builder();
  ~Builder();
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  const Type& type(Value v) const;

  // ---- parameters, results
  /// Appends a parameter of main. May be called at any time outside regions' bodies or inside them.
  Value parameter(const Type& type);
  int64_t parameter_count() const;
  /// Number of a value that parameter() returned; throws BuildError for any other.
  int64_t parameter_index(Value parameter) const;
  /// Donation: result `result_index` takes the memory of parameter number `parameter_index`.
  void alias(int64_t parameter_index, int64_t result_index);
  /// Module text with these results. `module_name` becomes the program's name in profiles.
  std::string finish(std::span<const Value> results, std::string_view module_name);

  /// What comes from now on belongs to another operator than what came before. XLA simplifies
  /// within a part only: log(exp(x)) of two operators overflows as it does when they run one by
  /// one. The compiler's reports name a part's operations by `location`, if it is not empty.
  void begin_part(std::string_view location = {});
  /// The operand and the permutation, if this value is a transpose.
  std::optional<std::pair<Value, Dims>> transposed_from(Value v) const;

  // ---- constants
  // Equal constants (and iotas) are made once per region.
  /// A splat; the number is rounded to the dtype, to nearest even (constant_int: once, not through
  /// double). Integer dtypes drop the fraction and wrap; BuildError if it is not finite.
  Value constant(DType dtype, double value, const Dims& dims = {});
  Value constant_int(DType dtype, int64_t value, const Dims& dims = {});
  Value constant_complex(DType dtype, std::complex<double> value, const Dims& dims = {});
  Value zeros(const Type& type);
  /// 1-D tensor of integers, or one with these dims in row-major order.
  Value constant_ints(DType dtype, std::span<const int64_t> values);
  Value constant_ints(DType dtype, std::span<const int64_t> values, const Dims& dims);
  /// 1-D tensor of numbers, or one with these dims in row-major order.
  Value constant_floats(DType dtype, std::span<const double> values);
  Value constant_floats(DType dtype, std::span<const double> values, const Dims& dims);
  /// Identities of max / min: -inf / +inf for floats, the least / greatest for integers and Pred.
  Value lowest(DType dtype, const Dims& dims = {});
  Value highest(DType dtype, const Dims& dims = {});
  Value iota(const Type& type, int64_t dim);

  // ---- elementwise. `op` is the name without dialect for stablehlo ("exponential"), or with it
  // for others ("chlo.erf"). Operands must have equal types: broadcasting is in math.h.
  Value unary(std::string_view op, Value x);
  Value binary(std::string_view op, Value a, Value b);
  /// Result is Pred. Unsigned, signed, float and complex (EQ, NE only) comparison by dtype.
  Value compare(Compare direction, Value a, Value b, CompareKind kind = CompareKind::Partial);
  Value select(Value pred, Value on_true, Value on_false);  // pred may be 0-d
  /// min(max(x, low), high); bounds may be 0-d. NaN wins, in a bound too (see maximum in math.h).
  Value clamp(Value low, Value x, Value high);
  /// No-op if the dtype is the same. Floats to integers truncate, what is out of range becomes the
  /// nearest bound, NaN becomes 0. To Pred: not equal to 0 (NaN is true; both parts of a complex
  /// number count). Between integers: the low bits. Complex to real drops the imaginary part.
  Value convert(Value x, DType dtype);
  /// Width-changing casts add or drop a minor dimension as in the StableHLO specification.
  Value bitcast_convert(Value x, DType dtype);
  Value reduce_precision(Value x, int exponent_bits, int mantissa_bits);
  Value complex(Value re, Value im);
  Value real(Value x);  // of a complex value
  Value imag(Value x);
  Value is_finite(Value x);

  // ---- shape
  Value reshape(Value x, const Dims& dims);  // no-op if the same
  Value broadcast_in_dim(Value x, const Dims& dims, const Dims& broadcast_dims);
  Value transpose(Value x, const Dims& permutation);  // no-op if the identity
  Value reverse(Value x, const Dims& dims);
  Value slice(Value x, const Dims& start, const Dims& limit, const Dims& strides = {});
  /// Start indices are 0-d integers of one dtype.
  Value dynamic_slice(Value x, std::span<const Value> starts, const Dims& sizes);
  Value dynamic_update_slice(Value x, Value update, std::span<const Value> starts);
  /// Negative low/high cut; interior >= 0; empty interior: all 0.
  Value pad(Value x, Value padding_value, const Dims& low, const Dims& high,
            const Dims& interior = {});
  Value concatenate(std::span<const Value> xs, int64_t dim);

  // ---- contraction. Result dtype may be wider than the operands' (accumulation).
  Value dot_general(Value a, Value b, const DotDims& dims, Precision precision, DType result);
  Value convolution(Value x, Value kernel, const ConvConfig& config, DType result);

  // ---- reductions, windows, sorting. The bodies see their own arguments and what they make
  // themselves, constants too, but no value from outside: XLA makes them functions of scalars.
  // Reduced over no dimension, an operand comes back as it is: XLA leaves out the initial value.
  Values reduce(std::span<const Value> xs, std::span<const Value> inits, const Dims& dims,
                const Body& body);
  /// Single-operand reduction by a binary operation named as in `binary`, such as "add", "maximum".
  Value reduce(Value x, Value init, const Dims& dims, std::string_view op);
  Values reduce_window(std::span<const Value> xs, std::span<const Value> inits,
                       const Window& window, const Body& body);
  Value reduce_window(Value x, Value init, const Window& window, std::string_view op);
  Value select_and_scatter(Value x, Value source, Value init, const Window& window,
                           const Body& select, const Body& scatter);
  /// The comparator gets 2 scalars per operand (a0, b0, a1, b1, ...) and returns one Pred.
  Values sort(std::span<const Value> xs, int64_t dim, bool stable, const Body& comparator);
  /// The k greatest elements along the last dimension, greatest first in the total order, and their
  /// positions (S32); of equal ones the first.
  Values top_k(Value x, int64_t k);

  // ---- indexing
  Value gather(Value operand, Value start_indices, const GatherDims& dims);
  /// `body` combines (old, update) scalars.
  Value scatter(Value operand, Value indices, Value updates, const ScatterDims& dims,
                const Body& body);

  // ---- control flow. Bodies may use any value made before, and add parameters.
  Values while_loop(std::span<const Value> inits, const Body& condition, const Body& body);
  Values if_else(Value pred, const Body& then_body, const Body& else_body);

  // ---- between the replicas of a program. `groups`: numbers of replicas, all of them, in groups
  // of one size; each group is by itself.
  /// The replicas' values one after the other along `dim`.
  Value all_gather(Value x, int64_t dim, std::span<const Dims> groups);
  /// `combiner` is the name of a binary operation, such as "add" or "maximum".
  Value all_reduce(Value x, std::string_view combiner, std::span<const Dims> groups);
  /// The reduced value, cut along `dim`: the k-th replica of a group gets the k-th part.
  Value reduce_scatter(Value x, int64_t dim, std::string_view combiner,
                       std::span<const Dims> groups);
  /// The k-th part along `split_dim` goes to the group's k-th replica; what comes in is joined
  /// along `concat_dim`.
  Value all_to_all(Value x, int64_t split_dim, int64_t concat_dim, std::span<const Dims> groups);

  // ---- linear algebra, fft, bits
  Value cholesky(Value x, bool lower);
  Value triangular_solve(Value a, Value b, bool left_side, bool lower, bool unit_diagonal,
                         std::string_view transpose /* NO_TRANSPOSE, TRANSPOSE, ADJOINT */);
  Value fft(Value x, std::string_view kind /* FFT, IFFT, RFFT, IRFFT */, const Dims& length);
  Values custom_call(std::string_view target, std::span<const Value> xs,
                     std::span<const Type> results, std::string_view backend_config = {},
                     int api_version = 1);
  Value optimization_barrier(Value x);

 private:
  friend class Op;

 public:
  struct Impl;  // internal

 private:
  Impl* impl_;
};

}  // namespace torch_tpu::stablehlo
