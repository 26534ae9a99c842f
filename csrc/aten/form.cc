#include "aten/form.h"

#include <algorithm>
#include <unordered_map>

namespace torch_tpu::aten {
namespace {

using c10::Argument;
using c10::FunctionSchema;
using c10::OperatorHandle;
using c10::TypeKind;

ArgKind kind_of(const Argument& arg) {
  c10::TypePtr type = arg.real_type();
  if (type->kind() == TypeKind::OptionalType)
    type = type->expectRef<c10::OptionalType>().getElementType();
  switch (type->kind()) {
    case TypeKind::TensorType:
      return ArgKind::Tensor;
    case TypeKind::NumberType:
      return ArgKind::Scalar;
    case TypeKind::FloatType:
      return ArgKind::Float;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return ArgKind::Int;
    case TypeKind::BoolType:
      return arg.name() == "pin_memory" ? ArgKind::Ignored : ArgKind::Bool;
    case TypeKind::StringType:
      return ArgKind::String;
    case TypeKind::ScalarTypeType:
      return ArgKind::DType;
    case TypeKind::GeneratorType:
      return ArgKind::Generator;
    case TypeKind::LayoutType:
    case TypeKind::MemoryFormatType:
    case TypeKind::DeviceObjType:
      return ArgKind::Ignored;
    case TypeKind::ListType:
      break;
    default:
      TORCH_INTERNAL_ASSERT(false, "argument ", arg.name(), " has an unexpected type ",
                            type->str());
  }
  c10::TypePtr element = type->expectRef<c10::ListType>().getElementType();
  if (element->kind() == TypeKind::OptionalType) {
    element = element->expectRef<c10::OptionalType>().getElementType();
  }
  switch (element->kind()) {
    case TypeKind::TensorType:
      return ArgKind::TensorList;
    case TypeKind::NumberType:
      return ArgKind::ScalarList;
    case TypeKind::FloatType:
      return ArgKind::FloatList;
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return ArgKind::IntList;
    case TypeKind::BoolType:
      return ArgKind::BoolList;
    default:
      TORCH_INTERNAL_ASSERT(false, "argument ", arg.name(), " has an unexpected type ",
                            type->str());
  }
}

bool is_written(const Argument& arg) { return arg.alias_info() && arg.alias_info()->isWrite(); }

bool is_functional(const FunctionSchema& schema) {
  return std::none_of(schema.arguments().begin(), schema.arguments().end(), is_written);
}

bool is_same_type(const Argument& a, const Argument& b) { return *a.real_type() == *b.real_type(); }

/// True if `schema` is `base` with its first argument written, or with out= arguments appended.
bool is_form_of(const FunctionSchema& schema, const FunctionSchema& base) {
  std::vector<const Argument*> inputs;
  bool writes = false;
  for (const Argument& arg : schema.arguments()) {
    writes |= is_written(arg);
    if (!arg.is_out()) inputs.push_back(&arg);
  }
  if (!writes || inputs.size() != base.arguments().size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!is_same_type(*inputs[i], base.arguments()[i])) return false;
  }
  return true;
}

/// All overloads by name without overload.
const std::unordered_map<std::string, std::vector<OperatorHandle>>& overloads() {
  static const auto index = [] {
    std::unordered_map<std::string, std::vector<OperatorHandle>> out;
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
      if (auto handle = dispatcher.findSchema(name)) out[name.name].push_back(*handle);
    }
    return out;
  }();
  return index;
}

std::vector<OperatorHandle> overloads_of(const std::string& name) {
  const auto found = overloads().find(name);
  return found == overloads().end() ? std::vector<OperatorHandle>{} : found->second;
}

/// What the user called, or something like it: "nll_loss" for "aten::nll_loss_forward".
std::string user_name_of(const std::string& schema_name) {
  std::string name = schema_name.substr(schema_name.find("::") + 2);
  name.erase(0, name.find_first_not_of('_'));
  for (const std::string_view internal : {"_forward_only", "_forward", "_impl"}) {
    if (const size_t at = name.find(internal); at != std::string::npos) {
      name.erase(at, internal.size());
    }
  }
  return name;
}

Form make_form(const lowering::Op& op, const OperatorHandle& named, const OperatorHandle& handle) {
  const FunctionSchema& schema = handle.schema();
  Form form(op, handle);
  if (is_functional(named.schema())) form.functional = named;
  const bool derived = named.operator_name() != handle.operator_name();
  for (size_t i = 0; i < schema.arguments().size(); ++i) {
    const Argument& arg = schema.arguments()[i];
    FormArg out;
    out.kind = kind_of(arg);
    out.written = is_written(arg);
    if (!derived || !arg.is_out()) {
      out.position = static_cast<int>(form.arg_of_position.size());
      form.arg_of_position.push_back(static_cast<int>(i));
      out.is_static = std::count(op.static_args.begin(), op.static_args.end(), out.position) > 0;
    }
    if (out.written) form.writes.push_back(static_cast<int>(i));
    if (out.kind == ArgKind::Generator) form.generator_arg = static_cast<int>(i);
    form.args.push_back(out);
  }
  if (!form.writes.empty()) {
    form.style = schema.arguments()[form.writes[0]].is_out() ? Style::Out : Style::Inplace;
  }
  form.user_name = user_name_of(schema.name());
  return form;
}

}  // namespace

std::vector<Form> forms_of(const lowering::Op& op) {
  const std::string full(op.name);
  const size_t dot = full.find('.');
  const c10::OperatorName name(full.substr(0, dot),
                               dot == std::string::npos ? "" : full.substr(dot + 1));
  const auto named = c10::Dispatcher::singleton().findSchema(name);
  if (!named) return {};  // of another PyTorch version
  std::vector<Form> forms{make_form(op, *named, *named)};
  if (!is_functional(named->schema())) return forms;
  for (const std::string& base : {name.name + "_", name.name}) {
    for (const OperatorHandle& handle : overloads_of(base)) {
      if (is_form_of(handle.schema(), named->schema())) {
        forms.push_back(make_form(op, *named, handle));
      }
    }
  }
  return forms;
}

}  // namespace torch_tpu::aten
