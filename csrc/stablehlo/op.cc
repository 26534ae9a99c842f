#include "stablehlo/op.h"

namespace torch_tpu::stablehlo {

int32_t Builder::Impl::add_value(const Type& type, int32_t frame, int32_t name, int32_t result) {
  auto id = static_cast<int32_t>(values.size());
  values.push_back({type, frame, name, result, Made::Other, part});
  return id;
}

void Builder::Impl::append_name(std::string& out, int32_t id) const {
  const Entry& entry = values[static_cast<size_t>(id)];
  out += entry.result == kParameter ? "%arg" : "%";
  append_int(out, entry.name);
  if (entry.result >= 0) {
    out += '#';
    append_int(out, entry.result);
  }
}

bool Builder::Impl::visible(int32_t id) const {
  int32_t wanted = values[static_cast<size_t>(id)].frame;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (frame->id == wanted) return true;
    if (frame->capture == Capture::No) return false;
  }
  return false;
}

Op::Op(Builder& builder, std::string_view name, std::span<const Value> operands)
    : builder_(builder),
      impl_(*builder.impl_),
      name_(name),
      operands_(operands.begin(), operands.end()) {
  for (Value v : operands_) {
    if (!v) fail_plain("an operand is empty");
    if (&v.builder() != &builder_) fail_plain("an operand belongs to another builder");
    if (!impl_.visible(v.id())) {
      fail("an operand lives outside of the region being built, or in one already closed");
    }
  }
}

void Op::fail_plain(std::string_view message) const {
  std::string text = name_;
  text += ": ";
  text += message;
  throw BuildError(text);
}

void Op::fail(std::string_view message) const {
  if (operands_.empty()) fail_plain(message);
  std::string text(message);
  text += operands_.size() == 1 ? " (operand: " : " (operands: ";
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (i != 0) text += ", ";
    append_type(text, operands_[i].type());
  }
  text += ')';
  fail_plain(text);
}

void Op::require_distinct(const Dims& dims, int64_t limit, std::string_view what) const {
  for (size_t i = 0; i < dims.size(); ++i) {
    bool bad = dims[i] < 0 || dims[i] >= limit;
    for (size_t j = 0; j < i && !bad; ++j) bad = dims[j] == dims[i];
    if (bad) {
      fail(std::string(what) + " " + to_string(dims) + " must be distinct and in [0, " +
           std::to_string(limit) + ")");
    }
  }
}

void Op::require_sorted(const Dims& dims, std::string_view what) const {
  for (size_t i = 1; i < dims.size(); ++i) {
    if (dims[i - 1] >= dims[i]) fail(std::string(what) + " " + to_string(dims) + " must ascend");
  }
}

void Op::attribute(std::string_view name, std::string_view text) {
  if (!attributes_.empty()) attributes_ += ", ";
  attributes_ += name;
  attributes_ += " = ";
  attributes_ += text;
}

void Op::attribute(std::string_view name, const Dims& values) {
  attribute(name, values.empty() ? "array<i64" : "array<i64: ");
  append_list(attributes_, values);
  attributes_ += '>';
}

void Op::attribute(std::string_view name, int64_t value) {
  attribute(name, std::string_view());
  append_int(attributes_, value);
  attributes_ += " : i64";
}

void Op::attribute_bool(std::string_view name, bool value) {
  attribute(name, value ? "true" : "false");
}

void Op::attribute_padding(const Dims& low, const Dims& high) {
  attribute("padding", "dense<");
  if (!low.empty()) attributes_ += '[';
  for (size_t i = 0; i < low.size(); ++i) {
    if (i != 0) attributes_ += ", ";
    attributes_ += '[';
    append_int(attributes_, low[i]);
    attributes_ += ", ";
    append_int(attributes_, high[i]);
    attributes_ += ']';
  }
  if (!low.empty()) attributes_ += ']';
  attributes_ += "> : tensor<";
  append_int(attributes_, static_cast<int64_t>(low.size()));
  attributes_ += "x2xi64>";
}

Types Op::region(std::span<const Type> arguments, Capture capture, const Body& body,
                 std::string_view what, const Types* expected) {
  // Closes the region also when its body throws, so that the builder stays usable.
  struct OpenFrame {
    Builder::Impl& impl;
    OpenFrame(Builder::Impl& i, Capture capture) : impl(i) {
      impl.frames.push_back({++impl.frames_made, capture, {}, {}});
    }
    ~OpenFrame() { impl.frames.pop_back(); }
  };

  OpenFrame open(impl_, capture);
  Builder::Impl::Frame& frame = impl_.frames.back();
  Values values;
  std::string text = regions_.empty() ? "{\n" : ", {\n";
  if (!arguments.empty()) {
    impl_.append_indent(text);
    text.resize(text.size() - 2);
    text += "^bb0(";
    for (const Type& type : arguments) {
      auto id = static_cast<int32_t>(impl_.values.size());
      impl_.add_value(type, frame.id, id, Builder::Impl::kSingle);
      if (!values.empty()) text += ", ";
      impl_.append_name(text, id);
      text += ": ";
      append_type(text, type);
      values.emplace_back(&builder_, id);
    }
    text += "):\n";
  }
  Values outputs = body(builder_, values);

  Op end(builder_, "stablehlo.return", outputs);
  Types types;
  types.reserve(outputs.size());
  for (Value v : outputs) types.push_back(v.type());
  if (expected != nullptr && types != *expected) {
    std::string message(what);
    message += " returns (";
    for (size_t i = 0; i < types.size(); ++i) {
      message += (i != 0 ? ", " : "") + stablehlo::to_string(types[i]);
    }
    message += "), not (";
    for (size_t i = 0; i < expected->size(); ++i) {
      message += (i != 0 ? ", " : "") + stablehlo::to_string((*expected)[i]);
    }
    fail(message + ")");
  }
  end.results({});
  regions_ += text;
  regions_ += frame.text;
  // The brace stands at the level of the operation itself, one out.
  regions_.append(2 * impl_.frames.size(), ' ');
  regions_ += '}';
  return types;
}

std::string Op::signature(std::span<const Type> types) const {
  std::string out;
  out.reserve(96 + attributes_.size() + regions_.size());
  out += '"';
  out += name_;
  out += "\"(";
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (i != 0) out += ", ";
    impl_.append_name(out, operands_[i].id());
  }
  out += ')';
  if (!attributes_.empty()) {
    out += " <{";
    out += attributes_;
    out += "}>";
  }
  if (!regions_.empty()) {
    out += " (";
    out += regions_;
    out += ')';
  }
  out += " : (";
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (i != 0) out += ", ";
    append_type(out, operands_[i].type());
  }
  out += ") -> ";
  if (types.size() != 1) out += '(';
  for (size_t i = 0; i < types.size(); ++i) {
    if (i != 0) out += ", ";
    append_type(out, types[i]);
  }
  if (types.size() != 1) out += ')';
  return out;
}

Values Op::results(std::span<const Type> types) {
  Builder::Impl::Frame& frame = impl_.frames.back();
  auto first = static_cast<int32_t>(impl_.values.size());
  Values out;
  out.reserve(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    int32_t index = types.size() == 1 ? Builder::Impl::kSingle : static_cast<int32_t>(i);
    out.emplace_back(&builder_, impl_.add_value(types[i], frame.id, first, index));
  }
  if (types.size() == 1) {
    Builder::Impl::Entry& entry = impl_.values.back();
    entry.made = made_by(impl_, name_, operands_);
    entry.part = impl_.part;
  }
  std::string& text = frame.text;
  impl_.append_indent(text);
  if (!types.empty()) {
    text += '%';
    append_int(text, first);
    if (types.size() != 1) {
      text += ':';
      append_int(text, static_cast<int64_t>(types.size()));
    }
    text += " = ";
  }
  text += signature(types);
  if (!impl_.location.empty()) {
    text += " loc(\"";
    text += impl_.location;
    text += "\")";
  }
  text += '\n';
  return out;
}

Value Op::result(const Type& type) { return results({&type, 1})[0]; }

Value Op::shared_result(const Type& type) {
  constexpr size_t kLongest = 1024;  // a table of numbers is not looked for again
  std::string key = signature({&type, 1});
  if (key.size() > kLongest) return result(type);
  for (auto frame = impl_.frames.rbegin(); frame != impl_.frames.rend(); ++frame) {
    auto found = frame->constants.find(key);
    if (found != frame->constants.end()) return found->second;
    if (frame->capture == Capture::No) break;
  }
  Value made = result(type);
  impl_.frames.back().constants.emplace(std::move(key), made);
  return made;
}

Types scalars(std::span<const Value> values) {
  Types out;
  out.reserve(values.size());
  for (Value v : values) out.push_back({v.dtype(), {}});
  return out;
}

}  // namespace torch_tpu::stablehlo
