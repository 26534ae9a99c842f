// Captured graphs: operators that are recorded without running, as one program for many calls.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/recorder.h"

namespace torch_tpu::engine {

/// Records all and runs nothing. Whoever needs a value on the host gets an error. Storages of the
/// real device are refused, or adopted: they become inputs, with stand-ins in their place.
class CaptureRecorder final : public Recorder {
 public:
  explicit CaptureRecorder(Device& device) : Recorder(device) {}

  void record(const std::shared_ptr<Program>& program, std::span<Storage* const> slots,
              const uint32_t* words, std::span<Storage* const> fresh) override;
  void flush() override;

 private:
  friend class Capture;
  Storage* stand_in(Storage* storage);

  bool adopts_ = false;
  std::vector<std::pair<Storage*, Storage*>> adopted_;  // real ones and their stand-ins
  std::string problem_;                                 // why the graph cannot be captured
  std::vector<const Storage*> updated_;  // from outside of the graph, by its operators
};

struct StorageDeleter {
  void operator()(Storage* storage) const { free_storage(storage); }
};

/// The program of a graph, and what a run of it needs.
struct CapturedGraph {
  std::shared_ptr<Program> program;  // null if nothing is to be computed
  size_t num_slots = 0;
  /// Slot of each input, and of each output; -1: the program does not use it.
  std::vector<int> inputs, outputs;
  /// Storages whose values came from the host while the graph was captured.
  std::vector<std::pair<int, std::unique_ptr<Storage, StorageDeleter>>> constants;
  std::vector<uint32_t> words;  // parameter words; those of random numbers are set by each run
  struct Random {
    int32_t word;
    bool is_offset;        // or seed
    uint64_t first_block;  // of its call, among those of the run
  };
  std::vector<Random> random;
  uint64_t random_blocks = 0;

  /// True if a run gives the input a new value.
  bool writes_input(size_t input) const;
};

/// The programs that captures of one graph have led to. Captures that differ in run-time numbers
/// only (a position, an offset, a scale) share one: numbers are constants of the program until a
/// second capture shows that they change. Not thread-safe.
class CapturedPrograms {
 private:
  friend class Capture;
  struct Entry {
    std::vector<uint32_t> words;    // of its first capture
    std::vector<bool> is_constant;  // of each parameter
    std::shared_ptr<Program> program;
  };
  std::map<std::vector<uint64_t>, Entry> by_structure_;
};

/// A graph while it is captured, on a device of its own that has the index of the real one.
/// Allocations there cost no memory. What was not finished is forgotten.
class Capture {
 public:
  /// `adopts`: storages of the real device that the graph uses become inputs of it.
  Capture(Device& target, bool adopts);
  ~Capture();
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  /// Within a scope, the operators of this thread are recorded.
  class Scope {
   public:
    explicit Scope(Capture& capture);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Capture* before_;
  };
  /// The capture that this thread is in the scope of, or null.
  static Capture* current();

  Device& device() { return *device_; }
  Device& target() { return target_; }
  /// Notes why the graph cannot be captured, and throws.
  [[noreturn]] void refuse(const std::string& problem);
  /// Empty if nothing is in the way so far.
  std::string problem();

  /// Real storages that the graph uses, so far.
  std::vector<Storage*> adopted();
  /// True if a recorded operator makes this storage's value, or a part of it.
  bool makes(const Storage& storage);
  /// Makes a program of what was recorded, which takes and gives the values of these storages, or
  /// finds it among the earlier ones. Adopted storages are inputs after the others. Blocks.
  CapturedGraph finish(std::span<Storage* const> inputs, std::span<Storage* const> outputs,
                       const std::string& name, CapturedPrograms& earlier);

  /// Forgets what was recorded. The storages stay, as operands of what comes: their values are
  /// lost.
  void forget();
  /// Lowers what was recorded, for a compiler that is not this machine's. The program takes and
  /// gives the values of these storages; all numbers but random ones are constants.
  struct Lowered {
    std::shared_ptr<const Program> program;  // not compiled
    std::vector<int> input_of_slot;          // position in `inputs`, or -1
  };
  Lowered lower(std::span<Storage* const> inputs, std::span<Storage* const> outputs,
                const std::string& name);

 private:
  CaptureRecorder& recorder();
  Trace trace_of(std::span<Storage* const> inputs, std::span<Storage* const> outputs,
                 CapturedGraph& graph);
  std::vector<uint64_t> structure(const CapturedGraph& graph);
  bool is_undefined(size_t slot, const CapturedGraph& graph) const;
  void take_constants(CapturedGraph& graph);

  Device& target_;
  std::unique_ptr<Device> device_;
};

/// Runs the graph's program. `random` is the (seed, offset) of its blocks. The storages of outputs
/// that the program does not make are null. Takes the device's mutex.
void run(const CapturedGraph& graph, Device& device, std::span<Storage* const> inputs,
         std::span<Storage* const> outputs, std::pair<uint64_t, uint64_t> random);

}  // namespace torch_tpu::engine
