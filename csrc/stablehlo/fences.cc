// XLA's algebraic simplifier rewrites chains of operations as mathematics allows and floating point
// does not: log(exp(x)) becomes x, (x + a) + b becomes x + (a + b). PyTorch rounds, and overflows,
// after each operator. So a chain that it would rewrite gets an optimization_barrier where one
// operator ends and the next begins. XLA drops the barrier after it has simplified and before it
// fuses, so it costs nothing.
#include <algorithm>

#include "stablehlo/op.h"

namespace torch_tpu::stablehlo {
namespace {

/// An operation without its dialect.
std::string_view short_name(std::string_view name) {
  const size_t dot = name.find('.');
  return dot == std::string_view::npos ? name : name.substr(dot + 1);
}

bool is_sum(std::string_view name) { return name == "add" || name == "subtract"; }

}  // namespace

Made made_by(const Builder::Impl& impl, std::string_view full_name,
             std::span<const Value> operands) {
  const auto is_constant = [&](Value v) {
    return impl.values[static_cast<size_t>(v.id())].made == Made::Constant;
  };
  const std::string_view name = short_name(full_name);
  if (name == "constant") return Made::Constant;
  if (name == "broadcast_in_dim" || name == "reshape" || name == "convert") {
    return is_constant(operands[0]) ? Made::Constant : Made::Other;
  }
  if (name == "exponential") return Made::Exp;
  if (name == "power") return Made::Power;
  if (name == "multiply") return Made::Multiply;
  if (is_sum(name)) return Made::Sum;
  if (name == "divide") return Made::Divide;
  return name == "rsqrt" ? Made::Rsqrt : Made::Other;
}

Values fenced(Builder& builder, const Builder::Impl& impl, std::string_view name, Values operands) {
  const auto made = [&](Value v) { return impl.values[static_cast<size_t>(v.id())].made; };
  for (const Value v : operands) {
    if (!v || &v.builder() != &builder) return operands;  // reported by the operation
  }
  const bool has_constant =
      std::ranges::any_of(operands, [&](Value v) { return made(v) == Made::Constant; });
  const auto is_rewritten = [&](Made by) {
    if (name == "log") return by == Made::Exp || by == Made::Power;
    if (name == "sqrt" || name == "rsqrt") return by == Made::Multiply || by == Made::Divide;
    if (name == "power") return by == Made::Exp || by == Made::Power;
    if (name == "divide") {
      return by == Made::Divide || by == Made::Exp || by == Made::Power || by == Made::Rsqrt ||
             (by == Made::Multiply && has_constant);
    }
    if (name == "multiply") {
      return by == Made::Exp || by == Made::Rsqrt ||
             (has_constant && (by == Made::Multiply || by == Made::Divide));
    }
    return is_sum(name) && has_constant && by == Made::Sum;
  };
  for (Value& v : operands) {
    const auto& entry = impl.values[static_cast<size_t>(v.id())];
    if (entry.part == impl.part || !is_float(v.dtype()) || !is_rewritten(entry.made)) continue;
    v = builder.optimization_barrier(v);
  }
  return operands;
}

}  // namespace torch_tpu::stablehlo
