// The one kernel behind every operator that has a lowering.
#include <ATen/MemoryOverlap.h>
#include <ATen/core/op_registration/op_registration.h>
#include <ATen/native/Resize.h>
#include <torch/library.h>

#include <deque>
#include <map>
#include <unordered_map>

#include "aten/call.h"
#include "aten/graph.h"
#include "aten/meta.h"
#include "aten/native.h"
#include "aten/params.h"
#include "aten/tensor.h"
#include "aten/trace_builder.h"
#include "device/allocator.h"
#include "device/current.h"
#include "device/errors.h"
#include "device/generator.h"
#include "engine/hash.h"
#include "engine/mode.h"
#include "engine/program_cache.h"
#include "engine/recorder.h"
#include "engine/runtime.h"
#include "pjrt/error.h"

namespace torch_tpu::aten {

using engine::Program;
using engine::Result;
using torch::jit::Stack;

namespace {

using Tensors = c10::SmallVector<at::Tensor, 4>;

/// Results of a trace that could not be recorded because out= arguments have another shape.
class NeedsResize : public std::exception {
 public:
  explicit NeedsResize(std::vector<Resize> resizes) : resizes(std::move(resizes)) {}
  std::vector<Resize> resizes;
};

c10::ArrayRef<c10::IValue> arguments_of(const Form& form, const Stack& stack) {
  const size_t count = form.args.size();
  return c10::ArrayRef<c10::IValue>(stack.data() + (stack.size() - count), count);
}

/// The rule of TensorIterator for operators that write: a written tensor may be an operand itself,
/// but must not overlap one in part.
void check_partial_overlaps(const Form& form, const Stack& stack) {
  std::vector<at::Tensor> written, all;
  const auto arguments = arguments_of(form, stack);
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::vector<at::Tensor> tensors;
    if (arguments[i].isTensor()) {
      tensors.push_back(arguments[i].toTensor());
    } else if (arguments[i].isTensorList()) {
      for (const c10::IValue& element : arguments[i].toListRef())
        tensors.push_back(element.toTensor());
    }
    for (const at::Tensor& tensor : tensors) {
      if (!tensor.defined() || !tensor.device().is_privateuseone()) continue;
      all.push_back(tensor);
      if (form.args[i].written) written.push_back(tensor);
    }
  }
  for (const at::Tensor& target : written) {
    for (const at::Tensor& other : all) at::assert_no_partial_overlap(target, other);
  }
}

/// Makes a program; if PyTorch or a lowering refuses the call, the error is that of the CPU.
template <class Make>
auto or_cpu_error(const Form& form, const Stack& stack, const Make& make) {
  try {
    return make();
  } catch (const pjrt::Error& error) {
    if (error.code() == pjrt::Code::InvalidArgument) {
      raise_cpu_error(form.handle, arguments_of(form, stack));
    }
    throw;
  } catch (...) {
    raise_cpu_error(form.handle, arguments_of(form, stack));
    throw;
  }
}

std::shared_ptr<Program> find_program(const Form& form, const CallKey& key, const Stack& stack,
                                      engine::Device& device) {
  engine::ProgramCache& cache = engine::ProgramCache::get();
  const engine::KeyWords words = key.words();
  const uint64_t hash = engine::hash_words(words.data(), words.size());
  if (auto program = cache.find(words, hash)) {
    engine::counters().cache_hits.fetch_add(1, std::memory_order_relaxed);
    return program;
  }
  const engine::WaitScope wait;  // compiling, or waiting for a thread that does
  return cache.find_or_make(words, hash, [&] {
    BuiltCall built = or_cpu_error(form, stack, [&] { return build_call(form, key, stack); });
    if (!built.resizes.empty()) throw NeedsResize(std::move(built.resizes));
    for (const Result& result : built.trace.calls.back().results) {
      // Before compiling, which takes for ever or fails obscurely if the result has no room.
      if (result.kind == Result::Kind::Fresh) device.check_room(result.type);
    }
    return or_cpu_error(
        form, stack, [&] { return engine::make_program(std::move(built.trace), form.user_name); });
  });
}

/// Debug mode: the call ends when its work has, and its errors are raised here.
void finish_now(engine::Device& device) {
  const engine::WaitScope wait;
  device.synchronize();
}

void push_results(const Form& form, Stack& stack, Tensors fresh) {
  const auto& returns = form.handle.schema().returns();
  if (form.style != Style::Functional) {
    std::vector<c10::IValue> written;
    for (size_t i = 0; i < returns.size(); ++i) {
      written.push_back(arguments_of(form, stack)[form.writes[i]]);
    }
    torch::jit::drop(stack, form.args.size());
    for (c10::IValue& value : written) stack.push_back(std::move(value));
    return;
  }
  torch::jit::drop(stack, form.args.size());
  size_t next = 0;
  for (const c10::Argument& result : returns) {
    if (result.type()->kind() == c10::TypeKind::TensorType) {
      stack.emplace_back(std::move(fresh[next++]));
    } else {
      c10::List<at::Tensor> list;
      while (next < fresh.size()) list.push_back(std::move(fresh[next++]));
      stack.emplace_back(std::move(list));
    }
  }
}

/// Runs the program of a call and gives its fresh results, in the order of the schema.
Tensors execute(const Form& form, const std::shared_ptr<Program>& shared, const CallKey& key,
                const Stack& stack, engine::Device& device, engine::EagerMode mode) {
  Program& program = *shared;
  const bool defers = device.captures() || mode == engine::EagerMode::DeferAndFuse;
  if (!defers) or_cpu_error(form, stack, [&] { engine::ensure_compiled(program); });
  c10::SmallVector<uint32_t, 32> words(program.param_words);
  if (!program.params.empty()) {
    std::pair<uint64_t, uint64_t> random{0, 0};
    if (program.random_blocks > 0) {
      const auto generator = generator_argument(form, arguments_of(form, stack));
      TORCH_CHECK_NOT_IMPLEMENTED(!device.captures() || !generator, form.user_name,
                                  ": a compiled graph draws random numbers from the default "
                                  "generator, not from one that is given");
      if (!device.captures())
        random =
            device::generator_or_default(generator, static_cast<c10::DeviceIndex>(device.index()))
                .reserve(program.random_blocks);
    }
    write_params(form, program, arguments_of(form, stack), key.starts(), random, words.data());
  }
  // The tensors come first: they raise out of memory before anything runs.
  Tensors tensors;
  c10::SmallVector<engine::Storage*, 8> fresh;
  for (const Result& result : program.results()) {
    if (result.kind == Result::Kind::Fresh) {
      tensors.push_back(make_tensor(device, result));
      fresh.push_back(&device::storage_of(tensors.back()));
    } else if (result.kind == Result::Kind::Undefined) {
      tensors.emplace_back();
    }
  }
  const auto lock = device.lock();
  engine::Recorder& recorder = device.recorder();
  if (defers) {
    recorder.record(shared, key.slots(), words.data(), fresh);
  } else {
    if (!recorder.empty()) recorder.flush();  // of a thread that was in Fused mode
    engine::run(program, device, key.slots(), words.data(), fresh);
  }
  return tensors;
}

/// foreach operators take 0-d CPU tensors as numbers, as the operators do that they stand for.
bool takes_numbers_in_lists(const Form& form) {
  return form.op->name.starts_with("aten::_foreach_");
}

void move_numbers_in_lists(const Form& form, Stack& stack, c10::Device device) {
  const size_t first = stack.size() - form.args.size();
  for (size_t i = 0; i < form.args.size(); ++i) {
    if (form.args[i].kind != ArgKind::TensorList || form.args[i].written) continue;
    c10::List<at::Tensor> moved;
    for (const at::Tensor& tensor : stack[first + i].toTensorVector()) {
      moved.push_back(is_host_scalar(tensor) ? tensor.to(device) : tensor);
    }
    stack[first + i] = std::move(moved);
  }
}

void note_captured(const Form& form, const Stack& stack) {
  for (const c10::IValue& argument : arguments_of(form, stack)) {
    if (argument.isTensor()) {
      GraphCapture::note_use(argument.toTensor());
    } else if (argument.isList()) {
      for (const c10::IValue& element : argument.toListRef()) {
        if (element.isTensor()) GraphCapture::note_use(element.toTensor());
      }
    }
  }
}

void run_once(const Form& form, Stack& stack) {
  const CallKey key(form, stack);
  if (key.number_in_list() && takes_numbers_in_lists(form)) {
    move_numbers_in_lists(
        form, stack, {c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(key.device())});
    return run_once(form, stack);
  }
  if (key.may_overlap() && form.style != Style::Functional) check_partial_overlaps(form, stack);
  engine::Device& device = device::engine_device(static_cast<c10::DeviceIndex>(key.device()));
  if (device.captures()) [[unlikely]] {
    note_captured(form, stack);
  }
  const std::shared_ptr<Program> program = find_program(form, key, stack, device);
  const engine::EagerMode mode = engine::eager_mode();
  Tensors fresh = execute(form, program, key, stack, device, mode);
  if (mode == engine::EagerMode::DeferNeverAndLaunchBlocking && !device.captures()) {
    finish_now(device);
  }
  push_results(form, stack, std::move(fresh));
}

/// All forms of the table, for ever.
struct Forms {
  std::deque<Form> all;
  std::unordered_map<std::string, const Form*> by_name;
};

const Forms& forms() {
  static const Forms* instance = [] {
    auto* out = new Forms;
    for (const lowering::Op& op : lowering::all_ops()) {
      for (Form& form : forms_of(op)) {
        form.id = static_cast<uint32_t>(out->all.size()) + 1;
        out->all.push_back(std::move(form));
        const Form& kept = out->all.back();
        const bool is_new =
            out->by_name.emplace(toString(kept.handle.operator_name()), &kept).second;
        TORCH_INTERNAL_ASSERT(is_new, "two lowerings serve ", kept.handle.operator_name());
      }
    }
    return out;
  }();
  return *instance;
}

class Kernel : public c10::OperatorKernel {
 public:
  explicit Kernel(const Form& form) : form_(form) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack* stack) {
    run_form(form_, *stack);
  }

 private:
  const Form& form_;
};

}  // namespace

void run_form(const Form& form, Stack& stack) {
  try {
    run_once(form, stack);
  } catch (const NeedsResize& needed) {
    for (const Resize& resize : needed.resizes) {
      const at::Tensor& out = arguments_of(form, stack)[resize.out_arg].toTensor();
      at::native::resize_output(out, resize.sizes);
      out.as_strided_(resize.sizes, resize.strides);
    }
    run_form(form, stack);
  } catch (const c10::Error&) {
    throw;
  } catch (...) {
    device::rethrow_as_torch_error(form.user_name.c_str());
  }
}

void run_native(const std::string& name, Stack& stack) {
  const auto found = forms().by_name.find(name);
  TORCH_INTERNAL_ASSERT(found != forms().by_name.end(), "no lowering serves ", name);
  run_form(*found->second, stack);
}

/// True if the operator gets its gradients by being composed of others (conj_physical).
bool loses_gradients(const c10::OperatorHandle& op) {
  return op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::Autograd) &&
         !op.hasKernelForDispatchKey(c10::DispatchKey::AutogradPrivateUse1);
}

void register_kernels() {
  static auto* libraries = new std::map<std::string, std::unique_ptr<torch::Library>>;
  for (const Form& form : forms().all) {
    if (form.handle.hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) continue;
    if (loses_gradients(form.handle)) continue;
    const c10::OperatorName& name = form.handle.operator_name();
    const std::string space(*name.getNamespace());
    std::unique_ptr<torch::Library>& library = (*libraries)[space];
    if (!library) {
      library = std::make_unique<torch::Library>(torch::Library::IMPL, space,
                                                 c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
    }
    library->impl(toString(name).c_str(),
                  torch::CppFunction::makeFromBoxedFunctor(std::make_unique<Kernel>(form)));
  }
}

}  // namespace torch_tpu::aten
