// The fused schedule: operators are recorded, and many of them become one program.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "engine/recorder.h"
#include "engine/steps.h"

namespace torch_tpu::engine {

/// A program is cut when a recorded value is needed on the host or replaced from it, at
/// synchronization, where a repeated step of the user's program ends, and at a limit. Values that
/// nobody can read any more when it is cut are not among its results.
class FusedRecorder final : public Recorder {
 public:
  explicit FusedRecorder(Device& device) : Recorder(device) {}

  void record(const std::shared_ptr<Program>& program, std::span<Storage* const> slots,
              const uint32_t* words, std::span<Storage* const> fresh) override;
  void flush() override;

 private:
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
  void lose_everything();

  Steps steps_;
};

}  // namespace torch_tpu::engine
