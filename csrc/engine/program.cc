#include "engine/program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <mutex>

#include "engine/disk_cache.h"
#include "engine/runtime.h"
#include "engine/sites.h"

namespace torch_tpu::engine {
namespace {

/// An array that lives on the stack unless a program has very many operands.
template <class T, size_t N>
class SmallArray {
 public:
  explicit SmallArray(size_t n) {
    if (n > N) {
      heap_ = std::make_unique<T[]>(n);
      data_ = heap_.get();
    }
  }
  T* data() { return data_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  std::array<T, N> stack_;
  std::unique_ptr<T[]> heap_;
  T* data_ = stack_.data();
};

pjrt::LoadedExecutable compile_or_load(const std::string& text) {
  Runtime& runtime = Runtime::get();
  DiskCache& cache = DiskCache::get();
  const std::string key = cache.enabled() ? cache.key(text, runtime.compile_options()) : "";
  if (std::optional<std::string> found = cache.load(key)) {
    try {
      pjrt::LoadedExecutable executable = runtime.client().load(*found);
      ++counters().disk_cache_hits;
      return executable;
    } catch (const pjrt::Error&) {
      cache.remove(key);  // written by something that this plugin does not accept: compile again
    }
  }
  const auto start = std::chrono::steady_clock::now();
  pjrt::LoadedExecutable executable = runtime.client().compile(text, runtime.compile_options());
  ++counters().compiles;
  counters().compile_nanoseconds += (std::chrono::steady_clock::now() - start).count();
  if (cache.enabled()) {
    ++counters().disk_cache_misses;
    try {
      cache.store(key, executable.serialize());
    } catch (const pjrt::Error&) {
      // A plugin without serialization has no disk cache.
    }
  }
  return executable;
}

PJRT_Buffer* words_operand(Program& program, Device& device, const uint32_t* words) {
  const size_t count = program.param_words;
  Program::LastWords& last = program.last_words[device.index()];
  if (!last.operand || std::memcmp(last.words.data(), words, count * sizeof(uint32_t)) != 0) {
    last.operand = device.words(words, program.param_words);
    last.words.assign(words, words + count);
  }
  return last.operand.raw();
}

}  // namespace

std::shared_ptr<Program> compile(const Trace& trace, const std::string& site_name) {
  Module module = lower(trace);
  auto program = std::make_shared<Program>();
  if (!module.outputs.empty()) program->executable = compile_or_load(module.text);
  program->operands = std::move(module.operands);
  program->outputs = std::move(module.outputs);
  program->params = std::move(module.params);
  program->param_words = module.param_words;
  program->random_blocks = module.random_blocks;
  program->site = site_of(site_name);
  program->last_words.resize(Runtime::get().device_count());
  program->results = trace.calls.back().results;
  return program;
}

void run(Program& program, Device& device, std::span<Storage* const> slots, const uint32_t* words,
         std::span<Storage* const> fresh) {
  if (!program.executable) return;
  const size_t num_operands = program.operands.size();
  SmallArray<PJRT_Buffer*, 64> args(num_operands);
  SmallArray<PJRT_Buffer*, 64> outs(program.outputs.size());
  std::vector<int64_t> pinned;

  std::lock_guard lock(device.mutex());
  for (size_t i = 0; i < num_operands; ++i) {
    const Operand& operand = program.operands[i];
    switch (operand.kind) {
      case Operand::Kind::Slot: {
        Storage& storage = *slots[operand.slot];
        if (!storage.value) ensure_value(storage);
        if (storage.pins > 0) pinned.push_back(static_cast<int64_t>(i));
        args[i] = storage.value.raw();
        break;
      }
      case Operand::Kind::Params:
        args[i] = words_operand(program, device, words);
        break;
      case Operand::Kind::Error:
        args[i] = device.error_word().raw();
        break;
    }
  }
  program.executable.execute(args.data(), num_operands, outs.data(), device.pjrt().raw(), pinned);
  counters().executions.fetch_add(1, std::memory_order_relaxed);
  const PJRT_Api* api = device.client().api();
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Output& output = program.outputs[i];
    switch (output.kind) {
      case Output::Kind::Fresh:
        fresh[output.index]->value = pjrt::Buffer(api, outs[i]);
        break;
      case Output::Kind::Slot:
        slots[output.index]->value = pjrt::Buffer(api, outs[i]);
        break;
      case Output::Kind::Error:
        device.set_error_word(pjrt::Buffer(api, outs[i]));
        break;
    }
  }
}

}  // namespace torch_tpu::engine
