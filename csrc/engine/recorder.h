// Operators that were recorded and have not run.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/program.h"

namespace torch_tpu::engine {

/// What a device has recorded and not run. A schedule derives from it and decides what becomes one
/// program. All calls hold the device's mutex.
class Recorder {
 public:
  virtual ~Recorder() = default;

  bool empty() const { return nodes_.empty(); }

  /// Records a call of a one-operator program, with the storages of its slots, its parameter words
  /// and the storages of its fresh results. May run what is recorded.
  virtual void record(const std::shared_ptr<Program>& program, std::span<Storage* const> slots,
                      const uint32_t* words, std::span<Storage* const> fresh);

  /// Runs all that is recorded. Blocks while a new program is compiled. If it throws, the values
  /// that were to be computed are lost.
  virtual void flush() = 0;

 protected:
  explicit Recorder(Device& device) : device_(device) {}

  struct Node {
    std::shared_ptr<Program> program;
    size_t first_slot;  // in node_slots_: those of the call, then one for each fresh result
    size_t first_word;
    uint64_t serial;  // of the newest storage when it was recorded
  };
  static constexpr int kFromOutside = -1;
  struct Slot {
    Storage* storage;
    int64_t creator;  // number of the node whose fresh result it is, or kFromOutside
  };

  std::vector<Storage*> storages() const;  // of slots_
  std::span<const int> slots_of_node(size_t node) const;
  /// The trace of these nodes. `local` renumbers slots_; its parameters are those of the nodes, one
  /// after the other.
  Trace trace_of(size_t first, size_t last, const std::vector<int>& local, size_t num_local,
                 std::vector<bool> unwanted) const;
  /// Forgets the first nodes.
  void drop(size_t count);

  Device& device_;
  uint64_t first_ = 0;  // number of the first node, counted from the start of the process
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;
  std::vector<int> node_slots_;  // -1: an empty result
  std::vector<uint32_t> words_;
  size_t writes_ = 0;  // nodes that write storages they did not make
  int64_t bytes_ = 0;  // of fresh results

 private:
  int slot_of(Storage& storage);
  void add_slot(Storage& storage, int64_t creator);
};

/// Number of results of a one-operator program that are new tensors.
size_t count_fresh(const Program& program);

}  // namespace torch_tpu::engine
