#include "engine/capture.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "engine/runtime.h"

namespace torch_tpu::engine {
namespace {

/// Devices of former captures. They are never destroyed, as tensors of a capture may outlive it.
class CaptureDevices {
 public:
  static CaptureDevices& get() {
    static auto* instance = new CaptureDevices;
    return *instance;
  }

  std::unique_ptr<Device> take(Device& target) {
    {
      std::lock_guard lock(mutex_);
      for (std::unique_ptr<Device>& device : free_) {
        if (device->index() != target.index()) continue;
        std::unique_ptr<Device> taken = std::move(device);
        std::swap(device, free_.back());
        free_.pop_back();
        return taken;
      }
    }
    return std::make_unique<Device>(target.client(), target.pjrt(), target.index(),
                                    Schedule::Capture);
  }

  void give_back(std::unique_ptr<Device> device) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(device));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Device>> free_;
};

bool is_random(const lowering::Param& param) {
  return param.source == lowering::Param::Source::Seed ||
         param.source == lowering::Param::Source::Offset;
}

/// False for the numbers that only a run knows.
bool may_be_constant(const lowering::Param& param) {
  return !is_random(param) && param.source != lowering::Param::Source::Site;
}

/// 32-bit words of a parameter, in a layout without gaps.
size_t words_of(const Trace& trace, size_t param) {
  const auto& params = *trace.params;
  const int32_t end = param + 1 < params.size() ? params[param + 1].word : trace.param_words;
  return static_cast<size_t>(end - params[param].word);
}

/// Makes constants of these parameters, and leaves no gaps between the others. `words` are those of
/// all parameters; gives those of the others.
std::vector<uint32_t> lay_out(Trace& trace, const std::vector<bool>& is_constant,
                              const std::vector<uint32_t>& words) {
  std::vector<uint32_t> left;
  std::vector<int32_t> first_word(is_constant.size());
  for (size_t p = 0; p < is_constant.size(); ++p) {
    if (is_constant[p]) continue;
    first_word[p] = static_cast<int32_t>(left.size());
    const auto first = words.begin() + (*trace.params)[p].word;
    left.insert(left.end(), first, first + static_cast<ptrdiff_t>(words_of(trace, p)));
  }
  for (size_t p = 0; p < is_constant.size(); ++p) {
    lowering::Param& param = (*trace.params)[p];
    param.is_constant = is_constant[p];
    if (!is_constant[p]) param.word = first_word[p];
  }
  trace.param_words = static_cast<int32_t>(left.size());
  trace.constants = words;
  return left;
}

/// Which parameters can be constants.
std::vector<bool> possible_constants(const Trace& trace) {
  std::vector<bool> possible;
  for (const lowering::Param& param : *trace.params) possible.push_back(may_be_constant(param));
  return possible;
}

}  // namespace

// ---- the recorder of a capture

void CaptureRecorder::record(const std::shared_ptr<Program>& program,
                             std::span<Storage* const> slots, const uint32_t* words,
                             std::span<Storage* const> fresh) {
  std::vector<Storage*> inside;
  for (Storage* storage : slots) {
    inside.push_back(&storage->device == &device_ ? storage : stand_in(storage));
  }
  Recorder::record(program, inside, words, fresh);
  for (const Output& output : program->outputs) {
    if (output.kind == Output::Kind::Slot) updated_.push_back(inside[output.index]);
  }
}

Storage* CaptureRecorder::stand_in(Storage* storage) {
  if (!adopts_) {
    problem_ = "it uses a tensor that is not one of its inputs";
    throw std::runtime_error(problem_);
  }
  for (const auto& [real, inside] : adopted_) {
    if (real == storage) return inside;
  }
  adopted_.emplace_back(storage, allocate_storage(device_, storage->nbytes, storage->base));
  return adopted_.back().second;
}

void CaptureRecorder::flush() {
  problem_ = "it needs a tensor's values on the host while it runs";
  throw std::runtime_error("this graph cannot be one program: " + problem_);
}

// ---- captures

thread_local Capture* current_capture = nullptr;

Capture::Capture(Device& target, bool adopts)
    : target_(target), device_(CaptureDevices::get().take(target)) {
  recorder().adopts_ = adopts;
}

Capture* Capture::current() { return current_capture; }

Capture::Scope::Scope(Capture& capture) : before_(std::exchange(current_capture, &capture)) {}

Capture::Scope::~Scope() { current_capture = before_; }

Capture::~Capture() {
  std::vector<std::pair<Storage*, Storage*>> adopted;
  {
    const auto lock = device_->lock();
    CaptureRecorder& recorder = this->recorder();
    for (Storage* storage : recorder.storages()) {
      storage->value.reset();
      storage->is_lost = true;
    }
    recorder.drop(recorder.nodes_.size());
    recorder.problem_.clear();
    recorder.updated_.clear();
    adopted = std::exchange(recorder.adopted_, {});
  }
  for (const auto& pair : adopted) free_storage(pair.second);
  CaptureDevices::get().give_back(std::move(device_));
}

CaptureRecorder& Capture::recorder() { return static_cast<CaptureRecorder&>(device_->recorder()); }

void Capture::refuse(const std::string& problem) {
  recorder().problem_ = problem;
  throw std::runtime_error("this graph cannot be one program: " + problem);
}

std::string Capture::problem() {
  const auto lock = device_->lock();
  return recorder().problem_;
}

std::vector<Storage*> Capture::adopted() {
  const auto lock = device_->lock();
  std::vector<Storage*> real;
  for (const auto& pair : recorder().adopted_) real.push_back(pair.first);
  return real;
}

bool Capture::makes(const Storage& storage) {
  const auto lock = device_->lock();
  CaptureRecorder& recorder = this->recorder();
  if (storage.slot < 0) return false;
  return recorder.slots_[storage.slot].creator != Recorder::kFromOutside ||
         std::ranges::count(recorder.updated_, &storage) > 0;
}

/// What a program depends on, beside the numbers.
std::vector<uint64_t> Capture::structure(const CapturedGraph& graph) {
  CaptureRecorder& recorder = this->recorder();
  std::vector<uint64_t> key;
  for (size_t i = 0; i < recorder.nodes_.size(); ++i) {
    key.push_back(recorder.nodes_[i].program->id);
    for (int slot : recorder.slots_of_node(i)) key.push_back(static_cast<uint64_t>(slot));
  }
  for (const auto* slots : {&graph.inputs, &graph.outputs}) {
    key.push_back(slots->size());
    for (int slot : *slots) key.push_back(static_cast<uint64_t>(slot));
  }
  return key;
}

/// The trace of all that was recorded. Notes the slots of inputs and outputs.
Trace Capture::trace_of(std::span<Storage* const> inputs, std::span<Storage* const> outputs,
                        CapturedGraph& graph) {
  CaptureRecorder& recorder = this->recorder();
  graph.num_slots = recorder.slots_.size();
  std::vector<int> local(graph.num_slots);
  std::vector<bool> unwanted(graph.num_slots, true);
  for (size_t s = 0; s < graph.num_slots; ++s) local[s] = static_cast<int>(s);
  for (const Storage* storage : inputs) graph.inputs.push_back(storage->slot);
  for (const auto& pair : recorder.adopted_) graph.inputs.push_back(pair.second->slot);
  for (const Storage* storage : outputs) graph.outputs.push_back(storage->slot);
  for (const auto* slots : {&graph.inputs, &graph.outputs}) {
    for (int slot : *slots) {
      if (slot >= 0) unwanted[slot] = false;
    }
  }
  Trace trace = recorder.trace_of(0, recorder.nodes_.size(), local, graph.num_slots, unwanted);
  for (size_t s = 0; s < graph.num_slots; ++s) trace.undefined.push_back(is_undefined(s, graph));
  return trace;
}

/// Nobody has written to the storage when the graph begins.
bool Capture::is_undefined(size_t slot, const CapturedGraph& graph) const {
  const auto& recorder = static_cast<const CaptureRecorder&>(device_->recorder());
  const Recorder::Slot& found = recorder.slots_[slot];
  return found.creator == Recorder::kFromOutside && !found.storage->value &&
         !found.storage->is_lost && std::ranges::count(graph.inputs, static_cast<int>(slot)) == 0;
}

CapturedGraph Capture::finish(std::span<Storage* const> inputs, std::span<Storage* const> outputs,
                              const std::string& name, CapturedPrograms& earlier) {
  const auto lock = device_->lock();
  CaptureRecorder& recorder = this->recorder();
  CapturedGraph graph;
  Trace trace = trace_of(inputs, outputs, graph);
  std::vector<uint64_t> first_block;
  for (const Recorder::Node& node : recorder.nodes_) {
    first_block.push_back(graph.random_blocks);
    graph.random_blocks += node.program->random_blocks;
  }
  CapturedPrograms::Entry& entry = earlier.by_structure_[structure(graph)];
  if (entry.words.empty()) {
    entry.words = recorder.words_;
    entry.is_constant = possible_constants(trace);
  }
  for (size_t p = 0; p < trace.params->size(); ++p) {
    const auto now = recorder.words_.begin() + (*trace.params)[p].word;
    const auto then = entry.words.begin() + (*trace.params)[p].word;
    const auto count = static_cast<ptrdiff_t>(words_of(trace, p));
    if (entry.is_constant[p] && !std::equal(now, now + count, then)) {
      entry.is_constant[p] = false;
      entry.program = nullptr;
    }
  }
  graph.words = lay_out(trace, entry.is_constant, recorder.words_);
  for (const lowering::Param& param : *trace.params) {
    if (!is_random(param)) continue;
    graph.random.push_back({param.word, param.source == lowering::Param::Source::Offset,
                            first_block[static_cast<size_t>(param.call)]});
  }
  if (!entry.program && !trace.calls.empty()) {
    trace.name = name;
    auto program = make_program(std::move(trace), name);
    ensure_compiled(*program);
    program->trace = {};
    entry.program = std::move(program);
  }
  graph.program = entry.program;
  take_constants(graph);
  return graph;
}

void Capture::forget() {
  const auto lock = device_->lock();
  CaptureRecorder& recorder = this->recorder();
  for (Storage* storage : recorder.storages()) storage->is_lost = true;
  recorder.drop(recorder.nodes_.size());
  recorder.updated_.clear();
}

Capture::Lowered Capture::lower(std::span<Storage* const> inputs, std::span<Storage* const> outputs,
                                const std::string& name) {
  const auto lock = device_->lock();
  CapturedGraph graph;
  Trace trace = trace_of(inputs, outputs, graph);
  trace.name = name;
  trace.names_operators = true;
  lay_out(trace, possible_constants(trace), recorder().words_);
  Lowered lowered;
  lowered.input_of_slot.assign(graph.num_slots, -1);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (graph.inputs[i] >= 0) lowered.input_of_slot[graph.inputs[i]] = static_cast<int>(i);
  }
  lowered.program = make_program(std::move(trace), name);
  return lowered;
}

/// Notes the storages that the graph reads though they are no inputs.
void Capture::take_constants(CapturedGraph& graph) {
  CaptureRecorder& recorder = this->recorder();
  for (size_t s = 0; s < graph.num_slots; ++s) {
    Storage& storage = *recorder.slots_[s].storage;
    const auto slot = static_cast<int>(s);
    if (recorder.slots_[s].creator != Recorder::kFromOutside) continue;
    if (std::ranges::count(graph.inputs, slot) > 0) continue;
    if (!storage.value) continue;
    if (std::ranges::count(recorder.updated_, &storage) > 0) {
      refuse("it changes a tensor that was made from values of the host");
    }
    Storage* constant = allocate_storage(target_, storage.nbytes, storage.base);
    constant->value = std::move(storage.value);
    graph.constants.emplace_back(slot, constant);
  }
}

bool CapturedGraph::writes_input(size_t input) const {
  return program && std::ranges::any_of(program->outputs, [&](const Output& output) {
           return output.kind == Output::Kind::Slot && output.index == inputs[input];
         });
}

void run(const CapturedGraph& graph, Device& device, std::span<Storage* const> inputs,
         std::span<Storage* const> outputs, std::pair<uint64_t, uint64_t> random) {
  if (!graph.program) return;
  std::vector<uint32_t> words = graph.words;
  for (const CapturedGraph::Random& number : graph.random) {
    const uint64_t value = number.is_offset ? random.second + number.first_block : random.first;
    std::memcpy(words.data() + number.word, &value, sizeof value);
  }
  std::vector<Storage*> slots(graph.num_slots);
  const auto bind = [&](const std::vector<int>& where, std::span<Storage* const> storages) {
    for (size_t i = 0; i < where.size(); ++i) {
      if (where[i] >= 0) slots[where[i]] = storages[i];
    }
  };
  bind(graph.outputs, outputs);
  bind(graph.inputs, inputs);
  for (const auto& [slot, constant] : graph.constants) slots[slot] = constant.get();
  const auto lock = device.lock();
  if (!device.recorder().empty()) device.recorder().flush();
  run(*graph.program, device, slots, words.data(), {});
}

}  // namespace torch_tpu::engine
