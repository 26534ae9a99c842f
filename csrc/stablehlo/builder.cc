// The builder's core: parameters, constants and the module's text.
#include "stablehlo/builder.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "stablehlo/literal.h"
#include "stablehlo/op.h"

namespace torch_tpu::stablehlo {

namespace {

// Longer tables are written as one hexadecimal string, which is shorter and parses faster.
constexpr size_t kLongestList = 64;

/// `@name`, quoted where MLIR needs it.
void append_symbol(std::string& out, std::string_view name) {
  bool plain =
      !name.empty() && (std::isalpha(static_cast<unsigned char>(name[0])) != 0 || name[0] == '_');
  for (char c : name) {
    plain = plain &&
            (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '$');
  }
  out += '@';
  if (plain) {
    out += name;
    return;
  }
  out += '"';
  for (char c : name) {
    bool printable = c >= ' ' && c <= '~' && c != '"' && c != '\\';
    out += printable ? c : '_';
  }
  if (name.empty()) out += "main";
  out += '"';
}

Value dense(Builder& builder, const Type& type, std::string_view elements) {
  Op op(builder, "stablehlo.constant");
  std::string text = "dense<";
  if (type.numel() != 0) text += elements;  // an empty tensor takes no elements, not even a splat
  text += "> : ";
  append_type(text, type);
  op.attribute("value", text);
  return op.shared_result(type);
}

Value splat(Builder& builder, const Type& type, uint64_t bits) {
  std::string text;
  append_element(text, type.dtype, bits);
  return dense(builder, type, text);
}

void append_nested(std::string& out, DType dtype, const Dims& dims, size_t dim,
                   std::span<const uint64_t> bits) {
  if (dim == dims.size()) {
    append_element(out, dtype, bits[0]);
    return;
  }
  auto count = static_cast<size_t>(dims[dim]);
  size_t step = bits.size() / count;
  out += '[';
  for (size_t i = 0; i < count; ++i) {
    if (i != 0) out += ", ";
    append_nested(out, dtype, dims, dim + 1, bits.subspan(i * step, step));
  }
  out += ']';
}

Value table(Builder& builder, const Type& type, std::span<const uint64_t> bits) {
  if (type.numel() != static_cast<int64_t>(bits.size())) {
    throw BuildError("stablehlo.constant: " + std::to_string(bits.size()) +
                     " numbers do not fill " + to_string(type));
  }
  std::string text;
  // MLIR packs the bits of an i1 string in its own way: always a list.
  if (bits.size() > kLongestList && type.dtype != DType::Pred) {
    text += "\"0x";
    for (uint64_t b : bits) append_blob(text, type.dtype, b);
    text += '"';
  } else if (!bits.empty()) {
    append_nested(text, type.dtype, type.dims, 0, bits);
  }
  return dense(builder, type, text);
}

void require_not_complex(DType dtype) {
  if (is_complex(dtype)) {
    throw BuildError("stablehlo.constant: a table of " + std::string(name(dtype)) +
                     " is not supported");
  }
}

}  // namespace

const Type& Value::type() const {
  if (builder_ == nullptr) throw BuildError("stablehlo: the type of an empty value");
  return builder_->type(*this);
}

Builder::Builder() : impl_(new Impl) { impl_->frames.push_back({0, Capture::No, {}, {}}); }

Builder::~Builder() { delete impl_; }

const Type& Builder::type(Value v) const {
  return impl_->values.at(static_cast<size_t>(v.id())).type;
}

Value Builder::parameter(const Type& type) {
  auto number = static_cast<int32_t>(impl_->parameters.size());
  int32_t id = impl_->add_value(type, impl_->frames.front().id, number, Impl::kParameter);
  impl_->parameters.push_back(id);
  impl_->aliases.push_back(-1);
  return Value(this, id);
}

int64_t Builder::parameter_count() const { return static_cast<int64_t>(impl_->parameters.size()); }

int64_t Builder::parameter_index(Value parameter) const {
  const auto& ids = impl_->parameters;
  const auto at = std::find(ids.begin(), ids.end(), parameter.id());
  if (at == ids.end()) throw BuildError("parameter_index: the value is not a parameter");
  return at - ids.begin();
}

void Builder::alias(int64_t parameter_index, int64_t result_index) {
  if (parameter_index < 0 || parameter_index >= parameter_count() || result_index < 0) {
    throw BuildError("alias: no parameter " + std::to_string(parameter_index) + " or result " +
                     std::to_string(result_index));
  }
  for (int64_t used : impl_->aliases) {
    if (used == result_index) {
      throw BuildError("alias: result " + std::to_string(result_index) +
                       " already takes the memory of a parameter");
    }
  }
  impl_->aliases[static_cast<size_t>(parameter_index)] = result_index;
}

std::string Builder::finish(std::span<const Value> results, std::string_view module_name) {
  if (impl_->frames.size() != 1) throw BuildError("finish: a region is still open");
  Op check(*this, "func.return", results);  // its constructor looks at the operands
  const std::string& body = impl_->frames.front().text;

  std::string out;
  out.reserve(body.size() + 256 + 48 * (impl_->parameters.size() + results.size()));
  out += "module ";
  append_symbol(out, module_name);
  out += " {\n  func.func public @main(";
  for (size_t i = 0; i < impl_->parameters.size(); ++i) {
    const Type& type = impl_->values[static_cast<size_t>(impl_->parameters[i])].type;
    if (i != 0) out += ", ";
    out += "%arg";
    append_int(out, static_cast<int64_t>(i));
    out += ": ";
    append_type(out, type);
    int64_t result = impl_->aliases[i];
    if (result < 0) continue;
    if (result >= static_cast<int64_t>(results.size())) {
      check.fail_plain("parameter " + std::to_string(i) + " is donated to result " +
                       std::to_string(result) + " of " + std::to_string(results.size()));
    }
    const Type& taker = results[static_cast<size_t>(result)].type();
    if (taker != type) {
      check.fail_plain("parameter " + std::to_string(i) + " (" + to_string(type) +
                       ") is donated to result " + std::to_string(result) + " (" +
                       to_string(taker) + ")");
    }
    out += " {tf.aliasing_output = ";
    append_int(out, result);
    out += " : i32}";
  }
  out += ") -> (";
  for (size_t i = 0; i < results.size(); ++i) {
    if (i != 0) out += ", ";
    append_type(out, results[i].type());
  }
  out += ") {\n";
  out += body;
  out += "    \"func.return\"(";
  for (size_t i = 0; i < results.size(); ++i) {
    if (i != 0) out += ", ";
    impl_->append_name(out, results[i].id());
  }
  out += ") : (";
  for (size_t i = 0; i < results.size(); ++i) {
    if (i != 0) out += ", ";
    append_type(out, results[i].type());
  }
  out += ") -> ()\n  }\n}\n";
  return out;
}

Value Builder::constant(DType dtype, double value, const Dims& dims) {
  if (is_complex(dtype)) return constant_complex(dtype, value, dims);
  return splat(*this, {dtype, dims}, encode(dtype, value));
}

void Builder::begin_part(std::string_view location) {
  ++impl_->part;
  impl_->location = location;
}

std::optional<std::pair<Value, Dims>> Builder::transposed_from(Value v) const {
  const auto found = impl_->transposes.find(v.id());
  if (found == impl_->transposes.end()) return std::nullopt;
  return found->second;
}

Value Builder::constant_int(DType dtype, int64_t value, const Dims& dims) {
  if (is_complex(dtype)) {
    uint64_t real = encode_float_from_int(real_dtype(dtype), value);
    return constant_complex(dtype, decode_float(real_dtype(dtype), real), dims);
  }
  return splat(*this, {dtype, dims}, encode_int(dtype, value));
}

Value Builder::constant_complex(DType dtype, std::complex<double> value, const Dims& dims) {
  if (!is_complex(dtype)) {
    throw BuildError("stablehlo.constant: a complex number is no " + std::string(name(dtype)));
  }
  DType part = real_dtype(dtype);
  std::string text = "(";
  append_element(text, part, encode_float(part, value.real()));
  text += ", ";
  append_element(text, part, encode_float(part, value.imag()));
  text += ')';
  return dense(*this, {dtype, dims}, text);
}

Value Builder::zeros(const Type& type) { return constant_int(type.dtype, 0, type.dims); }

Value Builder::constant_ints(DType dtype, std::span<const int64_t> values) {
  return constant_ints(dtype, values, {static_cast<int64_t>(values.size())});
}

Value Builder::constant_ints(DType dtype, std::span<const int64_t> values, const Dims& dims) {
  require_not_complex(dtype);
  std::vector<uint64_t> bits;
  bits.reserve(values.size());
  for (int64_t v : values) bits.push_back(encode_int(dtype, v));
  return table(*this, {dtype, dims}, bits);
}

Value Builder::constant_floats(DType dtype, std::span<const double> values) {
  return constant_floats(dtype, values, {static_cast<int64_t>(values.size())});
}

Value Builder::constant_floats(DType dtype, std::span<const double> values, const Dims& dims) {
  require_not_complex(dtype);
  std::vector<uint64_t> bits;
  bits.reserve(values.size());
  for (double v : values) bits.push_back(encode(dtype, v));
  return table(*this, {dtype, dims}, bits);
}

namespace {

/// Bits of the least (or greatest) value, infinity included.
uint64_t extreme(DType dtype, bool greatest) {
  if (dtype == DType::Pred) return greatest ? 1 : 0;
  auto width = static_cast<int>(byte_size(dtype) * 8);
  uint64_t ones = ~uint64_t{0} >> (64 - width);
  uint64_t top = uint64_t{1} << (width - 1);
  if (is_unsigned_int(dtype)) return greatest ? ones : 0;
  if (is_signed_int(dtype)) return greatest ? ones ^ top : top;
  if (is_complex(dtype)) {
    throw BuildError("stablehlo.constant: complex numbers have no least or greatest");
  }
  if (dtype == DType::F8E8M0FNU) return greatest ? largest_finite(dtype) : 0;
  uint64_t bits = has_infinity(dtype) ? encode_float(dtype, INFINITY) : largest_finite(dtype);
  return greatest ? bits : bits | top;
}

}  // namespace

Value Builder::lowest(DType dtype, const Dims& dims) {
  return splat(*this, {dtype, dims}, extreme(dtype, false));
}

Value Builder::highest(DType dtype, const Dims& dims) {
  return splat(*this, {dtype, dims}, extreme(dtype, true));
}

Value Builder::iota(const Type& type, int64_t dim) {
  Op op(*this, "stablehlo.iota");
  if (dim < 0 || dim >= type.rank()) {
    op.fail_plain("no dimension " + std::to_string(dim) + " in " + to_string(type));
  }
  if (type.dtype == DType::Pred) op.fail_plain("not for " + to_string(type));
  op.attribute("iota_dimension", dim);
  return op.shared_result(type);
}

}  // namespace torch_tpu::stablehlo
