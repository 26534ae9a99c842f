// Named values: options of a client or a topology, attributes of plugins, devices and topologies.
#pragma once

#include <pjrt_c_api.h>

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace torch_tpu::pjrt {

using Value = std::variant<std::string, int64_t, std::vector<int64_t>, float, bool>;

struct NamedValue {
  std::string name;
  Value value;
};

using Attributes = std::map<std::string, Value>;

/// Text of a value. A list of numbers is joined by dots, because plugins give their versions that
/// way: {1, 13, 3} is "1.13.3".
std::string to_string(const Value& value);

/// Copies a plugin's array of named values.
Attributes to_attributes(const PJRT_NamedValue* values, size_t count);

/// The C form of `options`. It points into them: they must outlive it.
std::vector<PJRT_NamedValue> to_c(std::span<const NamedValue> options);

}  // namespace torch_tpu::pjrt
