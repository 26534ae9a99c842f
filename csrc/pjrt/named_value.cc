#include "pjrt/named_value.h"

#include <sstream>

#include "pjrt/api_call.h"

namespace torch_tpu::pjrt {
namespace {

Value to_value(const PJRT_NamedValue& value) {
  switch (value.type) {
    case PJRT_NamedValue_kString:
      return std::string(value.string_value, value.value_size);
    case PJRT_NamedValue_kInt64:
      return value.int64_value;
    case PJRT_NamedValue_kInt64List:
      return std::vector<int64_t>(value.int64_array_value,
                                  value.int64_array_value + value.value_size);
    case PJRT_NamedValue_kFloat:
      return value.float_value;
    case PJRT_NamedValue_kBool:
      return value.bool_value;
  }
  // A newer plugin may have a type that this build does not know. An attribute is only information:
  // keep its name.
  return std::string("?");
}

struct SetValue {
  PJRT_NamedValue& out;

  void operator()(const std::string& value) const {
    out.type = PJRT_NamedValue_kString;
    out.string_value = value.data();
    out.value_size = value.size();
  }
  void operator()(int64_t value) const {
    out.type = PJRT_NamedValue_kInt64;
    out.int64_value = value;
    out.value_size = 1;
  }
  void operator()(const std::vector<int64_t>& value) const {
    out.type = PJRT_NamedValue_kInt64List;
    out.int64_array_value = value.data();
    out.value_size = value.size();
  }
  void operator()(float value) const {
    out.type = PJRT_NamedValue_kFloat;
    out.float_value = value;
    out.value_size = 1;
  }
  void operator()(bool value) const {
    out.type = PJRT_NamedValue_kBool;
    out.bool_value = value;
    out.value_size = 1;
  }
};

struct ToText {
  std::string operator()(const std::string& value) const { return value; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(float value) const {
    std::ostringstream text;
    text << value;
    return text.str();
  }
  std::string operator()(const std::vector<int64_t>& values) const {
    std::string text;
    for (int64_t value : values) {
      if (!text.empty()) {
        text += '.';
      }
      text += std::to_string(value);
    }
    return text;
  }
};

}  // namespace

std::string to_string(const Value& value) { return std::visit(ToText{}, value); }

Attributes to_attributes(const PJRT_NamedValue* values, size_t count) {
  Attributes attributes;
  for (const PJRT_NamedValue& value : std::span(values, count)) {
    attributes.insert_or_assign(std::string(value.name, value.name_size), to_value(value));
  }
  return attributes;
}

std::vector<PJRT_NamedValue> to_c(std::span<const NamedValue> options) {
  std::vector<PJRT_NamedValue> result;
  result.reserve(options.size());
  for (const NamedValue& option : options) {
    TORCH_TPU_PJRT_ARGS(PJRT_NamedValue, out);
    out.name = option.name.data();
    out.name_size = option.name.size();
    std::visit(SetValue{out}, option.value);
    result.push_back(out);
  }
  return result;
}

}  // namespace torch_tpu::pjrt
