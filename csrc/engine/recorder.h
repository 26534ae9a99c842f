// The fused schedule: operators are recorded, and many of them become one program.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/program.h"
#include "engine/steps.h"

namespace torch_tpu::engine {

/// What a device has recorded and not run. All calls hold the device's mutex.
///
/// A program is cut when a recorded value is needed on the host or replaced from it, at
/// synchronization, where a repeated step of the user's program ends, and at a limit. Values that
/// nobody can read any more when it is cut are not among its results.
class Recorder {
 public:
  explicit Recorder(Device& device) : device_(device) {}

  bool empty() const { return nodes_.empty(); }

  /// Records a call of a one-operator program, with the storages of its slots, its parameter words
  /// and the storages of its fresh results. May run what is recorded.
  void record(const std::shared_ptr<Program>& program, std::span<Storage* const> slots,
              const uint32_t* words, std::span<Storage* const> fresh);

  /// Runs all that is recorded. Blocks while a new program is compiled. If it throws, the values
  /// that were to be computed are lost.
  void flush();

 private:
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

  // ---- recording
  int slot_of(Storage& storage);
  void add_slot(Storage& storage, int64_t creator);
  std::vector<Storage*> storages() const;  // of slots_
  std::span<const int> slots_of_node(size_t node) const;

  // ---- steps
  void find_step();
  void find_step_at_limit();
  bool updates_same_storages(size_t length) const;
  bool reads_same_storages(size_t length) const;
  bool is_outer(int slot) const;
  bool match(std::span<const int> now, std::span<const int> before, size_t length) const;
  size_t best_end(size_t length) const;
  void cut_step(size_t length, size_t end);

  // ---- running
  void run_pieces(std::span<const size_t> ends);
  void run_piece(size_t first, size_t last, const std::vector<uint64_t>& deaths);
  void run_node(size_t node);
  std::shared_ptr<Program> fused_program(size_t first, size_t last, const std::vector<int>& local,
                                         size_t num_local, const std::vector<bool>& unwanted);
  Trace trace_of(size_t first, size_t last, const std::vector<int>& local, size_t num_local,
                 std::vector<bool> unwanted) const;
  void drop(size_t count);
  void lose_everything();

  Device& device_;
  uint64_t first_ = 0;  // number of the first node, counted from the start of the process
  std::vector<Node> nodes_;
  std::vector<Slot> slots_;
  std::vector<int> node_slots_;  // -1: an empty result
  std::vector<uint32_t> words_;
  size_t writes_ = 0;  // nodes that write storages they did not make
  int64_t bytes_ = 0;  // of fresh results
  Steps steps_;
};

}  // namespace torch_tpu::engine
