#include <algorithm>
#include <iterator>

#include "engine/trace.h"
#include "lowering/cast.h"

namespace torch_tpu::engine {

using lowering::Argument;
using lowering::Param;
using lowering::ParamPack;
using lowering::ViewKind;
using stablehlo::Builder;
using stablehlo::BuildError;
using stablehlo::Value;
using stablehlo::Values;

namespace {

class Lowerer {
 public:
  Lowerer(const Trace& trace, ParamPack params) : trace_(trace), slots_(trace.slots.size()) {
    state_.builder = &builder_;
    state_.params = std::move(params);
  }

  Module run() {
    for (const Call& call : trace_.calls) {
      state_.precision = call.precision;
      state_.random_blocks = 0;  // each call has an offset of its own
      builder_.begin_part(trace_.names_operators ? call.op->name : std::string_view());
      lower_call(call);
      ++state_.call;
    }
    return finish();
  }

 private:
  struct Slot {
    Value current;  // null: not read or written yet
    int64_t parameter = -1;
    bool written = false;
  };

  Value slot_value(int slot) {
    Slot& s = slots_.at(slot);
    if (!s.current && !trace_.undefined.empty() && trace_.undefined[slot]) {
      s.current = builder_.zeros(trace_.slots[slot]);
    } else if (!s.current) {
      s.parameter = builder_.parameter_count();
      s.current = builder_.parameter(trace_.slots[slot]);
      note_operand({Operand::Kind::Slot, slot});
    }
    return s.current;
  }

  /// Parameters of the program appear in any order; each gets its description.
  void note_operand(Operand operand) {
    operands_.resize(builder_.parameter_count());
    operands_.back() = operand;
  }

  Values starts_of(const TensorRef& ref) {
    Values starts;
    const int count = lowering::num_starts(ref.view);
    const DType dtype =
        ref.slot >= 0 && trace_.slots[ref.slot].numel() > INT32_MAX / 16 ? DType::S64 : DType::S32;
    for (int i = 0; i < count; ++i) {
      starts.push_back(state_.params.get(builder_, {.source = Param::Source::ViewStart,
                                                    .call = state_.call,
                                                    .a = ref.first_start + i,
                                                    .dtype = dtype}));
    }
    return starts;
  }

  Value read(const TensorRef& ref) {
    if (ref.view.kind == ViewKind::Empty) return builder_.zeros({ref.view.dtype, ref.view.sizes});
    if (ref.slot < 0) return {};
    const Value base = slot_value(ref.slot);
    return lowering::read_view(base, ref.view, starts_of(ref));
  }

  void write(const TensorRef& ref, Value value) {
    if (ref.view.kind == ViewKind::Empty) return;
    value = lowering::cast(value, ref.view.dtype);
    if (value.dims() != ref.view.sizes) {
      throw BuildError("a result of " + to_string(value.type()) +
                       " cannot be written to a tensor of " +
                       to_string(Type{ref.view.dtype, ref.view.sizes}));
    }
    const bool whole = ref.view.kind == ViewKind::Whole;
    const Value old = whole ? slots_.at(ref.slot).current : slot_value(ref.slot);
    Slot& slot = slots_.at(ref.slot);
    slot.current =
        lowering::write_view(old, trace_.slots[ref.slot], ref.view, starts_of(ref), value);
    slot.written = true;
  }

  Argument argument(const TraceArgument& arg) {
    Argument out;
    out.host_tensor = arg.host_tensor;
    std::visit(
        [&](const auto& data) {
          using T = std::decay_t<decltype(data)>;
          if constexpr (std::is_same_v<T, TensorRef>) {
            out.data = read(data);
          } else if constexpr (std::is_same_v<T, std::vector<TensorRef>>) {
            Values values;
            for (const TensorRef& ref : data) values.push_back(read(ref));
            out.data = std::move(values);
          } else {
            out.data = data;
          }
        },
        arg.data);
    return out;
  }

  /// PyTorch takes operands without elements also in dtypes for which its kernels have no numbers.
  static Values lowered(const Call& call, lowering::Context& context) {
    try {
      return call.op->lower(context);
    } catch (const BuildError&) {
      Values empty;
      for (const stablehlo::Type& type : call.outs) {
        if (type.numel() > 0) throw;
        empty.push_back(context.b.zeros(type));
      }
      return empty;
    }
  }

  void lower_call(const Call& call) {
    std::vector<Argument> args;
    for (const TraceArgument& arg : call.args) args.push_back(argument(arg));
    lowering::Context context(state_, *call.op, std::move(args), call.outs, call.common);
    const Values values = lowered(call, context);
    if (values.size() != call.results.size()) {
      throw BuildError(std::string(call.op->name) + ": " + std::to_string(values.size()) +
                       " results, expected " + std::to_string(call.results.size()));
    }
    for (size_t k = 0; k < values.size(); ++k) {
      const Result& result = call.results[k];
      if (result.kind == Result::Kind::Write) {
        if (values[k]) write(result.target, values[k]);
      } else if (result.kind == Result::Kind::Fresh) {
        add_fresh(call, k, values[k], result);
      }
    }
  }

  void add_fresh(const Call& call, size_t k, Value value, const Result& result) {
    const int index = fresh_count_++;
    if (result.type.numel() == 0) return;
    if (!value || value.dims() != result.type.dims) {
      throw BuildError(std::string(call.op->name) + ": result " + std::to_string(k) + " is " +
                       (value ? to_string(value.type()) : "missing") + ", expected " +
                       to_string(result.type));
    }
    value = lowering::cast(value, result.type.dtype);
    lowering::ViewSpec whole{ViewKind::Whole, result.type.dtype, result.type.dims, result.strides};
    results_.push_back(lowering::write_view({}, result.base, whole, {}, value));
    outputs_.push_back({Output::Kind::Fresh, index});
  }

  Module finish() {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (!slots_[i].written || (!trace_.unwanted.empty() && trace_.unwanted[i])) continue;
      if (slots_[i].parameter >= 0) {
        builder_.alias(slots_[i].parameter, static_cast<int64_t>(results_.size()));
      }
      results_.push_back(slots_[i].current);
      outputs_.push_back({Output::Kind::Slot, static_cast<int>(i)});
    }
    if (state_.error.incoming) {
      builder_.alias(parameter_index(state_.error.incoming), static_cast<int64_t>(results_.size()));
      results_.push_back(state_.error.current);
      outputs_.push_back({Output::Kind::Error});
    }
    Module module;
    module.operands.assign(operands_.begin(), operands_.end());
    module.operands.resize(builder_.parameter_count(), {Operand::Kind::Slot, -1});
    if (state_.params.operand()) {
      module.operands[parameter_index(state_.params.operand())] = {Operand::Kind::Params};
    }
    if (state_.error.incoming) {
      module.operands[parameter_index(state_.error.incoming)] = {Operand::Kind::Error};
    }
    module.outputs = outputs_;
    std::ranges::remove_copy_if(state_.params.layout(), std::back_inserter(module.params),
                                &Param::is_constant);
    module.param_words = state_.params.words();
    module.random_blocks = state_.random_blocks;
    module.text = builder_.finish(results_, module_name());
    return module;
  }

  int64_t parameter_index(Value parameter) const { return builder_.parameter_index(parameter); }

  /// As profiles show it: the operator without namespace, such as add_Tensor.
  std::string module_name() const {
    std::string name = trace_.name;
    if (name.empty()) name = trace_.calls.size() == 1 ? trace_.calls[0].op->name : "fused";
    if (const size_t colons = name.find("::"); colons != std::string::npos)
      name.erase(0, colons + 2);
    for (char& c : name) {
      if (!isalnum(static_cast<unsigned char>(c))) c = '_';
    }
    return name;
  }

  const Trace& trace_;
  Builder builder_;
  lowering::ProgramState state_;
  std::vector<Slot> slots_;
  std::vector<Operand> operands_;
  Values results_;
  std::vector<Output> outputs_;
  int fresh_count_ = 0;
};

}  // namespace

Module lower(const Trace& trace) {
  if (trace.params) {
    return Lowerer(trace, ParamPack(trace.param_words, *trace.params, trace.constants)).run();
  }
  Module draft = Lowerer(trace, ParamPack()).run();
  if (draft.param_words == 0) return draft;
  return Lowerer(trace, ParamPack(draft.param_words)).run();
}

}  // namespace torch_tpu::engine
