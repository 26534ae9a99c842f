#include "aten/graph.h"

#include <ATen/ops/as_strided.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "aten/call.h"
#include "aten/dtype.h"
#include "aten/precision.h"
#include "aten/tensor.h"
#include "device/allocator.h"
#include "device/current.h"
#include "device/generator.h"
#include "engine/hash.h"
#include "engine/mode.h"
#include "engine/runtime.h"

namespace torch_tpu::aten {

using engine::Storage;
using lowering::ViewKind;

namespace {

/// True if the tensor is all of its storage, each element once, without lazy bits.
bool is_dense(const at::Tensor& tensor, const SeenTensor& seen) {
  if (seen.plan.kind == ViewKind::Empty) return tensor.numel() == 0;
  return seen.plan.kind == ViewKind::Whole && tensor.storage_offset() == 0 &&
         seen.storage->base.dtype == seen.dtype && !tensor.is_conj() && !tensor.is_neg();
}

/// The same values on the device in memory of their own, with the same strides where that is
/// possible.
at::Tensor dense_copy(const at::Tensor& tensor, c10::DeviceIndex device) {
  const bool keeps_strides = tensor.is_non_overlapping_and_dense();
  at::Tensor copy =
      keeps_strides ? empty_strided(tensor.sizes(), tensor.strides(), tensor.scalar_type(), device)
                    : empty_contiguous(tensor.sizes(), tensor.scalar_type(), device);
  copy.copy_(tensor);
  return copy;
}

at::Tensor view_of(c10::Storage storage, const GraphResult& result) {
  at::Tensor tensor = tensor_over(std::move(storage), result.dtype, result.sizes, result.strides);
  tensor.unsafeGetTensorImpl()->set_storage_offset(result.offset);
  if (result.is_conj) tensor._set_conj(true);
  if (result.is_neg) tensor._set_neg(true);
  return tensor;
}

}  // namespace

// ---- calls

GraphCall::GraphCall(std::vector<c10::IValue> values, const std::vector<bool>& exact,
                     c10::DeviceIndex device) {
  key.push_back(static_cast<uint64_t>(precision()));
  args.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) add(values[i], i < exact.size() && exact[i], device);
}

void GraphCall::add(const c10::IValue& value, bool exact, c10::DeviceIndex device) {
  if (value.isTensor()) {
    add_tensor({value.toTensor(), {}, 0}, exact, device);
    return;
  }
  args.emplace_back();
  key.push_back(value.isNone() ? 1 : value.isBool() ? 2 : value.isInt() ? 3 : 4);
  if (value.isBool()) {
    key.push_back(value.toBool());
  } else if (value.isInt()) {
    key.push_back(static_cast<uint64_t>(value.toInt()));
  } else if (value.isDouble()) {
    key.push_back(std::bit_cast<uint64_t>(value.toDouble()));
  } else {
    TORCH_CHECK(value.isNone(), "a compiled graph takes tensors, numbers and None, not ",
                value.tagKind());
  }
}

void GraphCall::add_tensor(Arg arg, bool exact, c10::DeviceIndex device) {
  arg.taken = arg.given;
  if (!arg.given.device().is_privateuseone()) arg.taken = dense_copy(arg.given, device);
  SeenTensor seen;
  see(arg.taken, seen);
  const bool dense = is_dense(arg.taken, seen);
  if (!dense && !exact) {
    arg.taken = dense_copy(arg.taken, device);
    see(arg.taken, seen);
  }
  const auto found = std::ranges::find(storages, seen.storage);
  arg.storage = static_cast<size_t>(found - storages.begin());
  const bool is_new = found == storages.end();
  if (is_new) storages.push_back(seen.storage);
  // What decides the program: the geometry, and the storage's base.
  const c10::TensorImpl* impl = arg.taken.unsafeGetTensorImpl();
  key.push_back(5 | static_cast<uint64_t>(seen.dtype) << 4 | uint64_t{arg.is_copy()} << 12 |
                uint64_t{impl->is_wrapped_number()} << 13 | uint64_t{arg.taken.is_conj()} << 14 |
                uint64_t{arg.taken.is_neg()} << 15 | static_cast<uint64_t>(impl->dim()) << 16 |
                arg.storage << 32);
  for (int64_t size : impl->sizes()) key.push_back(static_cast<uint64_t>(size));
  for (int64_t stride : impl->strides()) key.push_back(static_cast<uint64_t>(stride));
  if (!dense) key.push_back(static_cast<uint64_t>(impl->storage_offset()));
  if (is_new) {
    const stablehlo::Type& base = seen.storage->base;
    key.push_back(static_cast<uint64_t>(base.dtype) | base.dims.size() << 8 |
                  seen.storage->nbytes << 16);
    for (int64_t size : base.dims) key.push_back(static_cast<uint64_t>(size));
  }
  args.push_back(std::move(arg));
}

// ---- programs

size_t Graph::Hash::operator()(const std::vector<uint64_t>& key) const {
  return engine::hash_words(key.data(), key.size());
}

std::shared_ptr<const GraphProgram> Graph::find(const GraphCall& call) {
  const std::lock_guard lock(mutex_);
  const auto found = programs_.find(call.key);
  return found == programs_.end() ? nullptr : found->second;
}

void Graph::add(const GraphCall& call, std::shared_ptr<const GraphProgram> program) {
  // Calls with ever new numbers are captured anew each time. They share the programs, but not this.
  constexpr size_t kMaxKeys = 4096;
  const std::lock_guard lock(mutex_);
  if (programs_.size() >= kMaxKeys) programs_.clear();
  programs_[call.key] = std::move(program);
}

std::vector<c10::IValue> Graph::run(const GraphProgram& program, const GraphCall& call,
                                    c10::DeviceIndex index) {
  engine::Device& device = device::engine_device(index);
  std::vector<c10::Storage> made;
  std::vector<Storage*> outputs;
  made.reserve(program.made.size());
  for (const GraphProgram::Made& type : program.made) {
    outputs.push_back(engine::allocate_storage(device, type.nbytes, type.base));
    made.push_back(device::make_storage(outputs.back()));
  }
  std::pair<uint64_t, uint64_t> random{0, 0};
  if (program.captured.random_blocks > 0) {
    random =
        device::generator_or_default(std::nullopt, index).reserve(program.captured.random_blocks);
  }
  {
    // A plugin may run small programs on this thread.
    std::vector<Storage*> inputs = call.storages;
    for (const c10::Storage& storage : program.adopted) {
      inputs.push_back(&device::storage_of(*storage.unsafeGetStorageImpl()));
    }
    const engine::WaitScope wait;
    engine::run(program.captured, device, inputs, outputs, random);
    if (engine::eager_mode() == engine::EagerMode::DeferNeverAndLaunchBlocking) {
      device.synchronize();
    }
  }
  for (const GraphCall::Arg& arg : call.args) {
    if (arg.given.defined() && arg.is_copy() && program.captured.writes_input(arg.storage)) {
      at::Tensor given = arg.given;
      given.copy_(arg.taken);
    }
  }
  std::vector<c10::IValue> results;
  results.reserve(program.results.size());
  for (const GraphResult& result : program.results) {
    if (result.kind == GraphResult::Kind::Constant) {
      results.push_back(result.constant);
    } else if (result.kind == GraphResult::Kind::Made) {
      results.emplace_back(view_of(made[result.storage], result));
    } else {
      const auto arg = std::ranges::find_if(call.args, [&](const GraphCall::Arg& a) {
        return a.given.defined() && a.storage == result.storage;
      });
      results.emplace_back(view_of(arg->taken.storage(), result));
    }
  }
  return results;
}

// ---- capture

thread_local GraphCapture* current_capture = nullptr;

GraphCapture::Scope::Scope(GraphCapture& capture)
    : before_(std::exchange(current_capture, &capture)), engine_scope_(capture.capture_) {}

GraphCapture::Scope::~Scope() { current_capture = before_; }

void GraphCapture::note_use(const at::Tensor& tensor) {
  if (!current_capture || !tensor.defined() || !tensor.device().is_privateuseone()) return;
  Storage& storage = device::storage_of(tensor);
  if (&storage.device == &current_capture->capture_.device()) return;
  current_capture->outside_.emplace(&storage, tensor.storage());
}

GraphCapture::GraphCapture(Graph& graph, const GraphCall& call, bool adopts)
    : graph_(graph), call_(call), capture_(device::engine_device(graph.device()), adopts) {
  std::vector<c10::Storage> storages;
  for (const Storage* storage : call.storages) {
    inputs_.push_back(engine::allocate_storage(capture_.device(), storage->nbytes, storage->base));
    storages.push_back(device::make_storage(inputs_.back()));
  }
  for (const GraphCall::Arg& arg : call.args) {
    at::Tensor& placeholder = placeholders_.emplace_back();
    if (!arg.given.defined()) continue;
    const at::Tensor& taken = arg.taken;
    placeholder = view_of(storages[arg.storage], {.constant = {},
                                                  .dtype = taken.scalar_type(),
                                                  .sizes = taken.sizes().vec(),
                                                  .strides = taken.strides().vec(),
                                                  .offset = taken.storage_offset(),
                                                  .is_conj = taken.is_conj(),
                                                  .is_neg = taken.is_neg()});
    if (taken.unsafeGetTensorImpl()->is_wrapped_number()) {
      placeholder.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
  }
}

std::optional<size_t> GraphCapture::input_of(const Storage& storage) const {
  const auto found = std::ranges::find(inputs_, &storage);
  if (found == inputs_.end()) return std::nullopt;
  return static_cast<size_t>(found - inputs_.begin());
}

/// The result as the program can give it: a copy if it would be a copy of an argument that the
/// caller does not have, a part of something bigger, or what no operator made.
at::Tensor GraphCapture::settled(const at::Tensor& result, const std::vector<c10::IValue>& all) {
  const Storage& storage = device::storage_of(result);
  if (const auto input = input_of(storage)) {
    const bool is_given = std::ranges::none_of(call_.args, [&](const GraphCall::Arg& arg) {
      return arg.given.defined() && arg.storage == *input && arg.is_copy();
    });
    return is_given ? result : result.clone();
  }
  if (&storage.device != &capture_.device()) return result.clone();  // refused if not adopted
  if (result.numel() == 0) return result;
  if (!capture_.makes(storage)) return result.clone();
  const auto shares = std::ranges::count_if(all, [&](const c10::IValue& other) {
    return other.isTensor() && &device::storage_of(other.toTensor()) == &storage;
  });
  SeenTensor seen;
  see(result, seen);
  const bool is_part = seen.plan.kind != ViewKind::Whole && result.is_non_overlapping_and_dense();
  return is_part && shares == 1 ? result.clone() : result;
}

GraphResult GraphCapture::describe(const at::Tensor& tensor, GraphProgram& program,
                                   std::vector<Storage*>& outputs) const {
  GraphResult result{.constant = {},
                     .dtype = tensor.scalar_type(),
                     .sizes = tensor.sizes().vec(),
                     .strides = tensor.strides().vec(),
                     .offset = tensor.storage_offset(),
                     .is_conj = tensor.is_conj(),
                     .is_neg = tensor.is_neg()};
  Storage& storage = device::storage_of(tensor);
  if (const auto input = input_of(storage)) {
    result.kind = GraphResult::Kind::Input;
    result.storage = *input;
    return result;
  }
  const auto found = std::ranges::find(outputs, &storage);
  result.storage = static_cast<size_t>(found - outputs.begin());
  if (found == outputs.end()) {
    outputs.push_back(&storage);
    program.made.push_back({storage.nbytes, storage.base});
  }
  return result;
}

std::shared_ptr<const GraphProgram> GraphCapture::finish(std::vector<c10::IValue> results) {
  const std::vector<c10::IValue> all = results;
  for (c10::IValue& result : results) {
    if (!result.isTensor()) continue;
    result = settled(result.toTensor(), all);
  }
  auto program = std::make_shared<GraphProgram>();
  std::vector<Storage*> outputs;
  for (const c10::IValue& result : results) {
    program->results.push_back(result.isTensor() ? describe(result.toTensor(), *program, outputs)
                                                 : GraphResult{.kind = GraphResult::Kind::Constant,
                                                               .constant = result,
                                                               .sizes = {},
                                                               .strides = {}});
  }
  for (Storage* storage : capture_.adopted()) program->adopted.push_back(outside_.at(storage));
  const engine::WaitScope wait;
  const std::lock_guard lock(graph_.captured_mutex_);
  program->captured = capture_.finish(inputs_, outputs, graph_.name(), graph_.captured_);
  graph_.add(call_, program);
  return program;
}

}  // namespace torch_tpu::aten
