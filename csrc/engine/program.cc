#include "engine/program.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "engine/compile_log.h"
#include "engine/config.h"
#include "engine/disk_cache.h"
#include "engine/dump.h"
#include "engine/program_cache.h"
#include "engine/room.h"
#include "engine/runtime.h"
#include "engine/sha256.h"
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

using Executable = std::shared_ptr<const pjrt::LoadedExecutable>;

/// Executables in use by their program text: keys may differ in what the program does not depend
/// on. Texts are known by length and SHA-256 only, so that they need not be kept: no two texts with
/// one SHA-256 have ever been found, by accident or on purpose, so none gets another's executable.
class LiveExecutables {
 public:
  static LiveExecutables& get() {
    static auto* instance = new LiveExecutables;
    return *instance;
  }

  Executable find(const std::string& text) {
    const Identity identity = identity_of(text);
    std::lock_guard lock(mutex_);
    const auto found = by_text_.find(identity);
    return found == by_text_.end() ? nullptr : found->second.lock();
  }

  void add(const std::string& text, const Executable& executable) {
    const Identity identity = identity_of(text);
    std::lock_guard lock(mutex_);
    if (by_text_.size() >= sweep_at_) {
      std::erase_if(by_text_, [](const auto& entry) { return entry.second.expired(); });
      sweep_at_ = 2 * by_text_.size() + 64;
    }
    by_text_[identity] = executable;
  }

 private:
  using Identity = std::pair<size_t, Sha256>;
  static Identity identity_of(const std::string& text) { return {text.size(), sha256(text)}; }

  std::mutex mutex_;
  std::map<Identity, std::weak_ptr<const pjrt::LoadedExecutable>> by_text_;
  size_t sweep_at_ = 64;
};

pjrt::LoadedExecutable compile_or_load(const std::string& text, bool& from_disk) {
  Runtime& runtime = Runtime::get();
  DiskCache& cache = DiskCache::get();
  const std::string key = cache.enabled() ? cache.key(text, runtime.compile_options()) : "";
  if (std::optional<std::string> found = cache.load(key)) {
    try {
      pjrt::LoadedExecutable executable = runtime.client().load(*found);
      ++counters().disk_cache_hits;
      from_disk = true;
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

Executable executable_of(const Program& program) {
  LiveExecutables& live = LiveExecutables::get();
  if (auto found = live.find(program.text)) return found;
  dump_program(program.text);
  if (config().log_programs) std::fputs(program.text.c_str(), stderr);
  bool from_disk = false;
  const auto start = std::chrono::steady_clock::now();
  auto made = with_room([&] {
    return std::make_shared<const pjrt::LoadedExecutable>(compile_or_load(program.text, from_disk));
  });
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  live.add(program.text, made);
  note_compile(program.trace, took.count(), from_disk);
  return made;
}

/// The host memory that a compiled program keeps, about. CPU plugins do not tell the size of code:
/// small programs were seen to keep 120 to 160 KB, and big ones in proportion to their text.
int64_t bytes_of(const pjrt::LoadedExecutable& executable, const std::string& text) {
  constexpr int64_t kLeast = 128 << 10;
  const auto text_bytes = static_cast<int64_t>(text.size());
  return kLeast + std::max(executable.generated_code_size().value_or(0), 8 * text_bytes);
}

/// True if the program that makes this output has ended already.
bool has_ended(const PJRT_Api* api, PJRT_Buffer* output) {
  pjrt::Buffer borrowed(api, output);
  const bool ready = borrowed.is_ready();
  borrowed.release();
  return ready;
}

}  // namespace

size_t release_caches() { return ProgramCache::get().release_unused(); }

std::shared_ptr<Program> make_program(Trace trace, const std::string& site_name) {
  static std::atomic<uint64_t> last_id{0};
  Module module = lower(trace);
  auto program = std::make_shared<Program>();
  program->id = ++last_id;
  program->trace = std::move(trace);
  program->text = std::move(module.text);
  program->bytes = static_cast<int64_t>(program->text.size());
  program->operands = std::move(module.operands);
  program->outputs = std::move(module.outputs);
  program->params = std::move(module.params);
  program->param_words = module.param_words;
  program->random_blocks = module.random_blocks;
  program->site = site_of(site_name);
  program->words.resize(Runtime::get().device_count());
  return program;
}

void ensure_compiled(Program& program) {
  if (program.is_compiled.load(std::memory_order_acquire)) return;
  const WaitScope wait;
  std::lock_guard lock(program.compiling);
  if (program.is_compiled.load(std::memory_order_relaxed)) return;
  if (!program.outputs.empty()) {
    program.executable = executable_of(program);
    program.bytes.store(bytes_of(*program.executable, program.text), std::memory_order_relaxed);
  }
  program.text = {};
  program.is_compiled.store(true, std::memory_order_release);
}

void run(Program& program, Device& device, std::span<Storage* const> slots, const uint32_t* words,
         std::span<Storage* const> fresh) {
  if (!program.executable) return;
  const size_t num_operands = program.operands.size();
  SmallArray<PJRT_Buffer*, 64> args(num_operands);
  SmallArray<PJRT_Buffer*, 64> outs(program.outputs.size());

  WordsOperand& operand_words = program.words[device.index()];
  bool reads_words = false;
  for (size_t i = 0; i < num_operands; ++i) {
    const Operand& operand = program.operands[i];
    switch (operand.kind) {
      case Operand::Kind::Slot: {
        Storage& storage = *slots[operand.slot];
        if (!storage.value) ensure_value(storage);
        args[i] = storage.value.raw();
        break;
      }
      case Operand::Kind::Params:
        args[i] = operand_words.set(device.client(), device.pjrt(), device.is_host(), words,
                                    program.param_words);
        reads_words = true;
        break;
      case Operand::Kind::Error:
        args[i] = device.error_word().raw();
        break;
    }
  }
  device.with_room([&] {
    program.executable->execute(args.data(), num_operands, outs.data(), device.pjrt().raw());
  });
  counters().executions.fetch_add(1, std::memory_order_relaxed);
  const PJRT_Api* api = device.client().api();
  if (reads_words && operand_words.watches() && !has_ended(api, outs[0])) {
    operand_words.note_running();
  }
  const auto give = [api](Storage& storage, PJRT_Buffer* value) {
    storage.value = pjrt::Buffer(api, value);
    storage.is_lost = false;
  };
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const Output& output = program.outputs[i];
    switch (output.kind) {
      case Output::Kind::Fresh:
        give(*fresh[output.index], outs[i]);
        break;
      case Output::Kind::Slot:
        give(*slots[output.index], outs[i]);
        break;
      case Output::Kind::Error:
        device.set_error_word(pjrt::Buffer(api, outs[i]));
        break;
    }
  }
}

}  // namespace torch_tpu::engine
