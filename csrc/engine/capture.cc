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

/// Makes constants of the parameters that are the same in each run of this process and the next,
/// and lays the others out anew. Gives the words of those.
std::vector<uint32_t> fix_constants(Trace& trace, const std::vector<uint32_t>& recorded) {
  std::vector<uint32_t> words;
  trace.constants = recorded;
  for (lowering::Param& param : *trace.params) {
    param.is_constant = !is_random(param) && param.source != lowering::Param::Source::Site;
    if (param.is_constant) continue;
    // Seeds, offsets and sites have two words.
    const int32_t from = std::exchange(param.word, static_cast<int32_t>(words.size()));
    words.insert(words.end(), recorded.begin() + from, recorded.begin() + from + 2);
  }
  trace.param_words = static_cast<int32_t>(words.size());
  return words;
}

}  // namespace

// ---- the recorder of a capture

void CaptureRecorder::record(const std::shared_ptr<Program>& program,
                             std::span<Storage* const> slots, const uint32_t* words,
                             std::span<Storage* const> fresh) {
  for (const Storage* storage : slots) {
    if (&storage->device == &device_) continue;
    problem_ = "it uses a tensor that is not one of its inputs";
    throw std::runtime_error(problem_);
  }
  Recorder::record(program, slots, words, fresh);
  for (const Output& output : program->outputs) {
    if (output.kind == Output::Kind::Slot) updated_.push_back(slots[output.index]);
  }
}

void CaptureRecorder::flush() {
  problem_ = "it needs a tensor's values on the host while it runs";
  throw std::runtime_error("this graph cannot be one program: " + problem_);
}

// ---- captures

Capture::Capture(Device& target) : target_(target), device_(CaptureDevices::get().take(target)) {}

Capture::~Capture() {
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
  }
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

bool Capture::makes(const Storage& storage) {
  const auto lock = device_->lock();
  CaptureRecorder& recorder = this->recorder();
  if (storage.slot < 0) return false;
  return recorder.slots_[storage.slot].creator != Recorder::kFromOutside ||
         std::ranges::count(recorder.updated_, &storage) > 0;
}

CapturedGraph Capture::finish(std::span<Storage* const> inputs, std::span<Storage* const> outputs,
                              const std::string& name) {
  const auto lock = device_->lock();
  CaptureRecorder& recorder = this->recorder();
  const size_t num_slots = recorder.slots_.size();
  std::vector<int> local(num_slots);
  std::vector<bool> unwanted(num_slots, true), is_input(num_slots);
  for (size_t s = 0; s < num_slots; ++s) local[s] = static_cast<int>(s);
  CapturedGraph graph;
  graph.num_slots = num_slots;
  for (const Storage* storage : inputs) {
    graph.inputs.push_back(storage->slot);
    if (storage->slot < 0) continue;
    unwanted[storage->slot] = false;
    is_input[storage->slot] = true;
  }
  for (const Storage* storage : outputs) {
    graph.outputs.push_back(storage->slot);
    if (storage->slot >= 0) unwanted[storage->slot] = false;
  }
  Trace trace = recorder.trace_of(0, recorder.nodes_.size(), local, num_slots, unwanted);
  trace.name = name;
  graph.words = fix_constants(trace, recorder.words_);
  std::vector<uint64_t> first_block;
  for (const Recorder::Node& node : recorder.nodes_) {
    first_block.push_back(graph.random_blocks);
    graph.random_blocks += node.program->random_blocks;
  }
  for (const lowering::Param& param : *trace.params) {
    if (!is_random(param)) continue;
    graph.random.push_back({param.word, param.source == lowering::Param::Source::Offset,
                            first_block[static_cast<size_t>(param.call)]});
  }
  if (!trace.calls.empty()) {
    graph.program = make_program(std::move(trace), name);
    graph.program->trace = {};
    ensure_compiled(*graph.program);
  }
  for (size_t s = 0; s < num_slots; ++s) {
    Storage& storage = *recorder.slots_[s].storage;
    if (recorder.slots_[s].creator != Recorder::kFromOutside || is_input[s]) continue;
    if (!storage.value) {
      graph.scratch.emplace_back(static_cast<int>(s), storage.base);
      continue;
    }
    const bool is_written = std::ranges::any_of(graph.program->outputs, [&](const Output& o) {
      return o.kind == Output::Kind::Slot && o.index == static_cast<int>(s);
    });
    if (is_written) refuse("it changes a tensor that was made from values of the host");
    Storage* constant = allocate_storage(target_, storage.nbytes, storage.base);
    constant->value = std::move(storage.value);
    graph.constants.emplace_back(static_cast<int>(s), constant);
  }
  return graph;
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
  std::vector<std::unique_ptr<Storage, StorageDeleter>> scratch;
  for (const auto& [slot, type] : graph.scratch) {
    scratch.emplace_back(allocate_storage(device, type));
    slots[slot] = scratch.back().get();
  }
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
