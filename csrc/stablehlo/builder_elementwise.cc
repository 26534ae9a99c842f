#include "stablehlo/op.h"

namespace torch_tpu::stablehlo {
namespace {

// Which dtypes an operation takes.
enum Kinds : uint8_t {
  kPred = 1,
  kSigned = 2,
  kUnsigned = 4,
  kFloat = 8,
  kComplex = 16,
  kInt = kSigned | kUnsigned,
  kBits = kPred | kInt,
  kReal = kInt | kFloat,
  kInexact = kFloat | kComplex,
  kNumber = kReal | kComplex,
  kAny = kNumber | kPred,
};

Kinds kind(DType dtype) {
  if (dtype == DType::Pred) return kPred;
  if (is_signed_int(dtype)) return kSigned;
  if (is_unsigned_int(dtype)) return kUnsigned;
  return is_complex(dtype) ? kComplex : kFloat;
}

/// What the result's dtype is.
enum class Gives : uint8_t { Same, Real, Pred };

struct OpInfo {
  std::string_view name;
  uint8_t kinds;
  Gives gives = Gives::Same;
};

constexpr OpInfo kUnary[] = {
    {"abs", kSigned | kInexact, Gives::Real},
    {"cbrt", kFloat},
    {"ceil", kFloat},
    {"cosine", kInexact},
    {"count_leading_zeros", kInt},
    {"exponential", kInexact},
    {"exponential_minus_one", kInexact},
    {"floor", kFloat},
    {"imag", kInexact, Gives::Real},
    {"is_finite", kFloat, Gives::Pred},
    {"log", kInexact},
    {"log_plus_one", kInexact},
    {"logistic", kInexact},
    {"negate", kNumber},
    {"not", kBits},
    {"popcnt", kInt},
    {"real", kInexact, Gives::Real},
    {"round_nearest_afz", kFloat},
    {"round_nearest_even", kFloat},
    {"rsqrt", kInexact},
    {"sign", kSigned | kInexact},
    {"sine", kInexact},
    {"sqrt", kInexact},
    {"tan", kInexact},
    {"tanh", kInexact},
};

constexpr OpInfo kBinary[] = {
    {"add", kAny},
    {"and", kBits},
    {"atan2", kInexact},
    {"divide", kNumber},
    {"maximum", kPred | kReal},
    {"minimum", kPred | kReal},
    {"multiply", kAny},
    {"or", kBits},
    {"power", kNumber},
    {"remainder", kReal},  // on complex numbers XLA's CPU backend crashes
    {"shift_left", kInt},
    {"shift_right_arithmetic", kInt},
    {"shift_right_logical", kInt},
    {"subtract", kNumber},
    {"xor", kBits},
};

// CHLO's own; any other name with a dialect passes, with a result like its operand.
constexpr OpInfo kOthers[] = {
    {"chlo.conj", kAny},
    {"chlo.digamma", kFloat},
    {"chlo.erf", kFloat},
    {"chlo.erf_inv", kFloat},
    {"chlo.erfc", kFloat},
    {"chlo.is_inf", kFloat, Gives::Pred},
    {"chlo.is_neg_inf", kFloat, Gives::Pred},
    {"chlo.is_pos_inf", kFloat, Gives::Pred},
    {"chlo.lgamma", kFloat},
    {"chlo.next_after", kFloat},
};

/// The name as in program text, and its entry.
std::string full_name(std::string_view op) {
  std::string out = op.find('.') == std::string_view::npos ? "stablehlo." : "";
  out += op;
  return out;
}

OpInfo find(const Op& op, std::string_view name, std::span<const OpInfo> table) {
  constexpr std::string_view kPrefix = "stablehlo.";
  if (name.starts_with(kPrefix)) name.remove_prefix(kPrefix.size());
  for (const OpInfo& info : table) {
    if (info.name == name) return info;
  }
  if (name.find('.') == std::string_view::npos) op.fail("no elementwise operation has this name");
  for (const OpInfo& info : kOthers) {
    if (info.name == name) return info;
  }
  return {name, name.starts_with("chlo.") ? uint8_t{kInexact} : uint8_t{kAny}};
}

void require_kind(const Op& op, uint8_t kinds, Value x) {
  if ((kinds & kind(x.dtype())) == 0) op.fail("not for this dtype");
}

void require_same(const Op& op, Value a, Value b) {
  if (a.type() != b.type()) {
    op.fail_plain("operands differ: " + to_string(a.type()) + " and " + to_string(b.type()));
  }
}

DType result_dtype(Gives gives, DType operand) {
  if (gives == Gives::Pred) return DType::Pred;
  return gives == Gives::Real ? real_dtype(operand) : operand;
}

}  // namespace

Value Builder::unary(std::string_view name, Value x) {
  Op op(*this, full_name(name), fenced(*this, *impl_, name, {x}));
  OpInfo info = find(op, name, kUnary);
  require_kind(op, info.kinds, x);
  return op.result({result_dtype(info.gives, x.dtype()), x.dims()});
}

Value Builder::binary(std::string_view name, Value a, Value b) {
  Op op(*this, full_name(name), fenced(*this, *impl_, name, {a, b}));
  OpInfo info = find(op, name, kBinary);
  require_same(op, a, b);
  require_kind(op, info.kinds, a);
  return op.result({result_dtype(info.gives, a.dtype()), a.dims()});
}

Value Builder::compare(Compare direction, Value a, Value b, CompareKind order) {
  static constexpr std::string_view kDirections[] = {"EQ", "NE", "LT", "LE", "GT", "GE"};
  Op op(*this, "stablehlo.compare", {a, b});
  require_same(op, a, b);
  DType dtype = a.dtype();
  bool equality = direction == Compare::EQ || direction == Compare::NE;
  if (is_complex(dtype) && !equality) op.fail("complex numbers have no order");
  bool total = order == CompareKind::Total;
  if (total && !is_float(dtype)) op.fail("a total order is for floating dtypes");

  std::string text = "#stablehlo<comparison_direction ";
  text += kDirections[static_cast<size_t>(direction)];
  op.attribute("comparison_direction", text + ">");
  text = "#stablehlo<comparison_type ";
  if (is_signed_int(dtype)) {
    text += "SIGNED>";
  } else if (is_unsigned_int(dtype) || dtype == DType::Pred) {
    text += "UNSIGNED>";
  } else {
    text += total ? "TOTALORDER>" : "FLOAT>";
  }
  op.attribute("compare_type", text);
  return op.result({DType::Pred, a.dims()});
}

Value Builder::select(Value pred, Value on_true, Value on_false) {
  Op op(*this, "stablehlo.select", {pred, on_true, on_false});
  require_same(op, on_true, on_false);
  bool fits = pred.dtype() == DType::Pred && (pred.rank() == 0 || pred.dims() == on_true.dims());
  op.require(fits, "the first operand must be i1, of the others' shape or 0-d");
  return op.result(on_true.type());
}

Value Builder::clamp(Value low, Value x, Value high) {
  Op op(*this, "stablehlo.clamp", {low, x, high});
  for (Value bound : {low, high}) {
    bool fits = bound.dtype() == x.dtype() && (bound.rank() == 0 || bound.dims() == x.dims());
    op.require(fits, "the bounds must be of the operand's type, or 0-d");
  }
  require_kind(op, kPred | kReal, x);
  if (is_float(x.dtype())) {
    // stablehlo.clamp is defined as these two, but XLA's CPU backend gives the lower bound for NaN.
    auto spread = [&](Value bound) {
      return bound.dims() == x.dims() ? bound : broadcast_in_dim(bound, x.dims(), {});
    };
    return binary("minimum", binary("maximum", x, spread(low)), spread(high));
  }
  return op.result(x.type());
}

Value Builder::convert(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  // XLA would look at the real part alone.
  if (is_complex(x.dtype()) && dtype == DType::Pred) {
    return compare(Compare::NE, x, zeros(x.type()));
  }
  return Op(*this, "stablehlo.convert", {x}).result({dtype, x.dims()});
}

Value Builder::bitcast_convert(Value x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Op op(*this, "stablehlo.bitcast_convert", {x});
  bool same_kind = is_complex(x.dtype()) == is_complex(dtype);
  if (!same_kind || x.dtype() == DType::Pred || dtype == DType::Pred) {
    op.fail("no bit cast to " + std::string(stablehlo::name(dtype)));
  }
  int64_t from = byte_size(x.dtype());
  int64_t to = byte_size(dtype);
  Type result{dtype, x.dims()};
  if (from > to) {
    result.dims.push_back(from / to);
  } else if (from < to) {
    if (x.rank() == 0 || x.dims().back() != to / from) {
      op.fail("the last dimension must be " + std::to_string(to / from));
    }
    result.dims.pop_back();
  }
  return op.result(result);
}

Value Builder::reduce_precision(Value x, int exponent_bits, int mantissa_bits) {
  Op op(*this, "stablehlo.reduce_precision", {x});
  require_kind(op, kFloat, x);
  op.require(exponent_bits >= 1 && mantissa_bits >= 0, "bits out of range");
  op.attribute("exponent_bits", std::to_string(exponent_bits) + " : i32");
  op.attribute("mantissa_bits", std::to_string(mantissa_bits) + " : i32");
  return op.result(x.type());
}

Value Builder::complex(Value re, Value im) {
  Op op(*this, "stablehlo.complex", {re, im});
  require_same(op, re, im);
  op.require(re.dtype() == DType::F32 || re.dtype() == DType::F64, "parts must be f32 or f64");
  return op.result({complex_dtype(re.dtype()), re.dims()});
}

Value Builder::real(Value x) {
  if (!is_complex(x.dtype())) return x;
  return unary("real", x);
}

Value Builder::imag(Value x) { return unary("imag", x); }

Value Builder::is_finite(Value x) { return unary("is_finite", x); }

}  // namespace torch_tpu::stablehlo
