#include "aten/trace_builder.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/zeros.h>
#include <c10/core/ScalarType.h>

#include "aten/call_info.h"
#include "aten/checks.h"
#include "aten/dtype.h"
#include "aten/meta.h"
#include "stablehlo/types.h"

namespace torch_tpu::aten {

using engine::Call;
using engine::Result;
using engine::TensorRef;
using engine::TraceArgument;
using lowering::ViewKind;
using stablehlo::Dims;
using stablehlo::DType;
using stablehlo::Type;
using torch::jit::Stack;

namespace {

Dims to_dims(c10::IntArrayRef values) { return {values.begin(), values.end()}; }

Dims contiguous_strides(const Dims& sizes) {
  Dims strides(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  return strides;
}

Type type_of(const at::Tensor& tensor) {
  return {to_hlo(tensor.scalar_type()), to_dims(tensor.sizes())};
}

lowering::Scalar scalar_of(const c10::IValue& value) {
  lowering::Scalar out;
  const c10::Scalar scalar = value.toScalar();
  if (value.isBool()) {
    out.kind = lowering::ScalarKind::Bool;
    out.integer = value.toBool();
  } else if (value.isInt()) {
    out.kind = lowering::ScalarKind::Int;
    out.integer = value.toInt();
  } else {
    out.kind = scalar.isComplex() ? lowering::ScalarKind::Complex : lowering::ScalarKind::Float;
  }
  const c10::complex<double> z = scalar.toComplexDouble();
  out.number = {z.real(), z.imag()};
  return out;
}

/// Flattened tensors of a result stack or of written arguments. Undefined ones stay.
void flatten(const c10::IValue& value, std::vector<at::Tensor>& out) {
  if (value.isTensor()) {
    out.push_back(value.toTensor());
  } else if (value.isTensorList()) {
    for (const c10::IValue& element : value.toListRef()) out.push_back(element.toTensor());
  } else {
    TORCH_CHECK(value.isNone(), "a result is neither a tensor nor a list of tensors");
    out.emplace_back();
  }
}

/// Records one call in the order in which CallKey went through the arguments.
class TraceBuilder {
 public:
  TraceBuilder(const Form& form, const CallKey& key, const Stack& stack)
      : form_(form),
        key_(key),
        arguments_(stack.data() + (stack.size() - form.args.size()), form.args.size()) {}

  BuiltCall build() {
    check_arguments(form_, arguments_);
    check_overlaps();
    find_out_types();
    check_as_cpu();
    if (form_.style == Style::Out && find_resizes()) return std::move(built_);
    record_arguments();
    call_.common = promoted();
    record_results();
    call_.op = form_.op;
    call_.precision = key_.precision();
    call_.info = call_info(form_, key_, arguments_);
    for (engine::Storage* storage : key_.slots()) built_.trace.slots.push_back(storage->base);
    built_.trace.calls.push_back(std::move(call_));
    return std::move(built_);
  }

 private:
  std::vector<at::Tensor> written() const {
    std::vector<at::Tensor> out;
    for (int arg : form_.writes) flatten(arguments_[arg], out);
    return out;
  }

  /// PyTorch's rule for operators that write: every element has its own memory.
  void check_overlaps() const {
    if (form_.op->allows_overlap) return;
    for (const at::Tensor& tensor : written()) {
      if (tensor.defined()) at::assert_no_internal_overlap(tensor);
    }
  }

  /// What the lowering has to compute: by the functional overload's meta kernel, or else the
  /// written tensors.
  void find_out_types() {
    std::vector<at::Tensor> results;
    if (form_.style != Style::Functional && form_.functional) {
      const std::optional<Stack> functional = types_of(*form_.functional, functional_arguments());
      if (!functional) missing_meta();
      for (const c10::IValue& value : *functional) flatten(value, results);
      check_written(results);  // before the form's own meta kernel, whose words are not the CPU's
    }
    const std::optional<Stack> checked = types_of(form_.handle, arguments_);
    if (form_.style == Style::Functional) {
      if (!checked) missing_meta();
      for (const c10::IValue& value : *checked) flatten(value, results);
      drop_unwanted(results);
    } else if (!form_.functional) {
      results = written();
    }
    for (const at::Tensor& tensor : results) {
      call_.outs.push_back(tensor.defined() ? type_of(tensor) : Type{});
    }
    results_ = std::move(results);
  }

  /// Some meta kernels refuse operands without elements that the CPU's kernels take.
  std::optional<Stack> types_of(const c10::OperatorHandle& op,
                                c10::ArrayRef<c10::IValue> arguments) const {
    try {
      return run_on_meta(op, arguments);
    } catch (...) {
      std::optional<Stack> results;
      if (has_empty_operand()) results = run_on_cpu(op, arguments);
      if (!results) throw;
      return results;
    }
  }

  /// Backward operators say in `output_mask` which results are wanted; some meta kernels give them
  /// all.
  void drop_unwanted(std::vector<at::Tensor>& results) const {
    const std::optional<int> mask = form_.handle.schema().argumentIndexWithName("output_mask");
    if (!mask || !arguments_[*mask].isBoolList()) return;
    const c10::List<bool> wanted = arguments_[*mask].toBoolList();
    for (size_t k = 0; k < std::min(wanted.size(), results.size()); ++k) {
      if (!wanted[k]) results[k] = at::Tensor();
    }
  }

  [[noreturn]] void missing_meta() const {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "The tpu device cannot tell the result types of ",
                                form_.handle.operator_name(),
                                ": PyTorch has no meta kernel for it.");
  }

  std::vector<c10::IValue> functional_arguments() const {
    std::vector<c10::IValue> out;
    for (int arg : form_.arg_of_position) out.push_back(arguments_[arg]);
    const bool scan = form_.op->name == "aten::cumsum" || form_.op->name == "aten::cumprod";
    if (scan && form_.style == Style::Out && out[2].isNone()) {
      out[2] =
          static_cast<int64_t>(written().front().scalar_type());  // they compute in that of out=
    }
    return out;
  }

  /// For the forms whose own meta kernel does not check it.
  void check_written(const std::vector<at::Tensor>& results) const {
    const std::vector<at::Tensor> targets = written();
    TORCH_INTERNAL_ASSERT(targets.size() <= results.size(), form_.user_name);
    for (size_t k = 0; k < targets.size(); ++k) {
      if (!targets[k].defined() || !results[k].defined()) continue;
      const auto from = results[k].scalar_type();
      const auto to = targets[k].scalar_type();
      TORCH_CHECK(c10::canCast(from, to), "result type ", from,
                  " can't be cast to the desired output type ", to);
      TORCH_CHECK(form_.style == Style::Out || targets[k].sizes() == results[k].sizes(),
                  "output with shape ", targets[k].sizes(), " doesn't match the broadcast shape ",
                  results[k].sizes());
    }
  }

  /// Calls that CPU kernels check, each in its own way, and meta kernels often do not: out=
  /// arguments of another dtype, or which are operands too, and operands without elements.
  void check_as_cpu() const {
    if (form_.style == Style::Out && form_.functional && (has_other_dtypes() || writes_operand())) {
      // The zeros that the CPU is given may be what it refuses.
      if (!cpu_refuses(form_.handle, with_fitting_outs())) ask_cpu(form_.handle, arguments_);
    } else if (form_.generator_arg < 0 && has_empty_operand()) {
      ask_cpu(form_.handle, arguments_);
    }
  }

  std::vector<c10::IValue> with_fitting_outs() const {
    std::vector<c10::IValue> out = arguments_.vec();
    for (size_t k = 0; k < form_.writes.size(); ++k) {
      if (!out[form_.writes[k]].isTensor() || !results_[k].defined()) continue;
      const auto options = at::TensorOptions(results_[k].scalar_type());
      out[form_.writes[k]] = at::zeros(results_[k].sizes(), options);
    }
    return out;
  }

  bool has_other_dtypes() const {
    const std::vector<at::Tensor> targets = written();
    for (size_t k = 0; k < targets.size(); ++k) {
      if (!targets[k].defined() || !results_[k].defined()) continue;
      if (targets[k].scalar_type() != results_[k].scalar_type()) return true;
    }
    return false;
  }

  bool writes_operand() const {
    for (int target : form_.writes) {
      for (size_t i = 0; i < form_.args.size(); ++i) {
        if (form_.args[i].written || !arguments_[i].isTensor() || !arguments_[target].isTensor())
          continue;
        if (arguments_[i].toTensor().is_same(arguments_[target].toTensor())) return true;
      }
    }
    return false;
  }

  bool has_empty_operand() const {
    for (size_t i = 0; i < form_.args.size(); ++i) {
      if (form_.args[i].position < 0 || form_.args[i].kind != ArgKind::Tensor) continue;
      if (!arguments_[i].isTensor() || !arguments_[i].toTensor().defined()) continue;
      if (arguments_[i].toTensor().numel() == 0) return true;
    }
    return false;
  }

  bool find_resizes() {
    for (size_t k = 0; k < form_.writes.size(); ++k) {
      const c10::IValue& value = arguments_[form_.writes[k]];
      if (!value.isTensor() || !form_.functional || !results_[k].defined()) continue;
      if (value.toTensor().sizes() != results_[k].sizes()) {
        built_.resizes.push_back(
            {form_.writes[k], results_[k].sizes().vec(), resized_strides(value.toTensor(), k)});
      }
    }
    return !built_.resizes.empty();
  }

  /// Structured kernels give a resized tensor the strides of the result; so do the others, but to
  /// empty tensors only.
  Dims resized_strides(const at::Tensor& out, size_t k) const {
    constexpr auto kStructured = c10::DispatchKey::CompositeExplicitAutogradNonFunctional;
    const bool structured = form_.functional->hasKernelForDispatchKey(kStructured) ||
                            form_.op->name == "aten::linalg_solve_triangular";
    if (structured || out.numel() == 0) return strides_of(results_[k]);
    return contiguous_strides(to_dims(results_[k].sizes()));
  }

  static Dims strides_of(const at::Tensor& result) {
    const bool dense = result.is_non_overlapping_and_dense();
    return dense ? to_dims(result.strides()) : contiguous_strides(to_dims(result.sizes()));
  }

  TensorRef ref_of(const at::Tensor& tensor) {
    TensorRef ref;
    SeenTensor seen;
    see(tensor, seen);
    ref.view = {seen.plan.kind,          seen.dtype,
                to_dims(tensor.sizes()), to_dims(tensor.strides()),
                tensor.is_conj(),        tensor.is_neg()};
    ref.first_start = next_start_;
    next_start_ += seen.plan.num_starts;
    if (seen.plan.kind == ViewKind::Empty) return ref;
    const auto slots = key_.slots();
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i] == seen.storage) ref.slot = static_cast<int>(i);
    }
    return ref;
  }

  TraceArgument tensor_argument(const at::Tensor& tensor) {
    TraceArgument out;
    if (!tensor.defined()) return out;
    if (!tensor.device().is_privateuseone()) {
      out.host_tensor = to_hlo(tensor.scalar_type());
    } else {
      out.data = ref_of(tensor);
    }
    return out;
  }

  bool is_static(const FormArg& arg, const lowering::Scalar& scalar) const {
    if (arg.is_static) return true;
    if (scalar.kind != lowering::ScalarKind::Int && scalar.kind != lowering::ScalarKind::Float)
      return false;
    for (double special : form_.op->special_values) {
      if (scalar.number.real() == special) return true;
    }
    return false;
  }

  /// What is not part of the key must not reach the lowering.
  lowering::Scalar traced(const FormArg& arg, const c10::IValue& value) const {
    lowering::Scalar scalar = scalar_of(value);
    scalar.is_static = is_static(arg, scalar);
    if (!scalar.is_static) {
      scalar.number = 0;
      scalar.integer = 0;
    }
    return scalar;
  }

  TraceArgument argument(const c10::IValue& value, const FormArg& arg) {
    TraceArgument out;
    if (arg.kind == ArgKind::Ignored || arg.kind == ArgKind::Generator || value.isNone())
      return out;
    switch (arg.kind) {
      case ArgKind::Tensor:
        return tensor_argument(value.toTensor());
      case ArgKind::TensorList: {
        std::vector<TensorRef> refs;
        for (const c10::IValue& element : value.toListRef()) {
          if (element.isNone() || !element.toTensor().defined()) {
            refs.emplace_back();
            continue;
          }
          const at::Tensor& tensor = element.toTensor();
          TORCH_CHECK(tensor.device().is_privateuseone(), form_.user_name,
                      ": a list of tensors must be on the tpu device, but one is on ",
                      tensor.device());
          refs.push_back(ref_of(tensor));
        }
        out.data = std::move(refs);
        break;
      }
      case ArgKind::Scalar:
      case ArgKind::Float:
        if (value.isTensor()) return tensor_argument(value.toTensor());
        out.data = traced(arg, value);
        break;
      case ArgKind::ScalarList:
      case ArgKind::FloatList: {
        std::vector<lowering::Scalar> list;
        for (const c10::IValue& element : value.toListRef()) list.push_back(traced(arg, element));
        out.data = std::move(list);
        break;
      }
      case ArgKind::Int:
        out.data = int_of(value);
        break;
      case ArgKind::DType:
        out.data = to_hlo(static_cast<c10::ScalarType>(value.toInt()));
        break;
      case ArgKind::IntList: {
        Dims list;
        for (const c10::IValue& element : value.toListRef()) list.push_back(int_of(element));
        out.data = std::move(list);
        break;
      }
      case ArgKind::Bool:
        out.data = value.toBool();
        break;
      case ArgKind::BoolList: {
        std::vector<bool> list;
        for (const c10::IValue& element : value.toListRef()) list.push_back(element.toBool());
        out.data = std::move(list);
        break;
      }
      case ArgKind::String:
        out.data = value.toStringRef();
        break;
      case ArgKind::Generator:
      case ArgKind::Ignored:
        break;
    }
    return out;
  }

  void record_arguments() {
    call_.args.resize(form_.arg_of_position.size());
    for (size_t i = 0; i < form_.args.size(); ++i) {
      TraceArgument recorded = argument(arguments_[i], form_.args[i]);
      if (form_.args[i].written) note_targets(recorded);
      if (const int position = form_.args[i].position; position >= 0) {
        if (form_.op->overwrites && form_.args[i].written) forget_value(recorded);
        call_.args[position] = std::move(recorded);
      }
    }
  }

  /// Operators that only overwrite see the type of their target, not its value.
  static void forget_value(TraceArgument& recorded) { recorded.data = std::monostate{}; }

  void note_targets(const TraceArgument& recorded) {
    if (const auto* ref = std::get_if<TensorRef>(&recorded.data)) {
      targets_.push_back(*ref);
    } else if (const auto* refs = std::get_if<std::vector<TensorRef>>(&recorded.data)) {
      targets_.insert(targets_.end(), refs->begin(), refs->end());
    } else {
      targets_.emplace_back();
    }
  }

  std::optional<DType> promoted() const {
    at::native::ResultTypeState state;
    bool any = false;
    const auto& chosen = form_.op->promoted_args;
    for (size_t i = 0; i < form_.args.size(); ++i) {
      const FormArg& arg = form_.args[i];
      if (arg.position < 0 || arguments_[i].isNone()) continue;
      if (!chosen.empty() && std::count(chosen.begin(), chosen.end(), arg.position) == 0) continue;
      if (arg.kind == ArgKind::Tensor ||
          (arg.kind == ArgKind::Scalar && arguments_[i].isTensor())) {
        const at::Tensor& tensor = arguments_[i].toTensor();
        if (!tensor.defined()) continue;
        state = at::native::update_result_type_state(tensor, state);
        any = true;
      } else if (arg.kind == ArgKind::TensorList) {
        for (const c10::IValue& element : arguments_[i].toListRef()) {
          if (element.isNone() || !element.toTensor().defined()) continue;
          state = at::native::update_result_type_state(element.toTensor(), state);
          any = true;
        }
      } else if (arg.kind == ArgKind::Scalar) {
        state = at::native::update_result_type_state(arguments_[i].toScalar(), state);
        any = true;
      }
    }
    if (!any) return std::nullopt;
    const c10::ScalarType type = at::native::result_type(state);
    if (!has_dtype(type)) return std::nullopt;
    return to_hlo(type);
  }

  void record_results() {
    for (size_t k = 0; k < results_.size(); ++k) {
      Result result;
      if (form_.style != Style::Functional) {
        result.kind = Result::Kind::Write;
        result.target = targets_.at(k);
      } else if (!results_[k].defined()) {
        result.kind = Result::Kind::Undefined;
      } else {
        result.type = call_.outs[k];
        result.strides = strides_of(results_[k]);
        result.base = {result.type.dtype,
                       lowering::memory_order_dims(result.type.dims, result.strides)};
      }
      call_.results.push_back(std::move(result));
    }
    for (int position : form_.op->extra_writes) {
      const auto* ref = std::get_if<TensorRef>(&call_.args.at(position).data);
      if (!ref) continue;
      Result result;
      result.kind = Result::Kind::Write;
      result.target = *ref;
      call_.results.push_back(std::move(result));
    }
  }

  const Form& form_;
  const CallKey& key_;
  c10::ArrayRef<c10::IValue> arguments_;
  BuiltCall built_;
  Call call_;
  std::vector<at::Tensor> results_;
  std::vector<TensorRef> targets_;
  int next_start_ = 0;
};

}  // namespace

BuiltCall build_call(const Form& form, const CallKey& key, const Stack& stack) {
  return TraceBuilder(form, key, stack).build();
}

}  // namespace torch_tpu::aten
