// Repeated steps in a stream of operators.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace torch_tpu::engine {

/// Sees the identity of each recorded operator, whatever is run in between. It knows nothing of
/// values: whether a repetition is a step is the recorder's to judge.
class Steps {
 public:
  /// Notes the next operator. Gives the length of a known step that ends with it, or 0.
  size_t push(uint64_t id);

  /// True while the newest operators are the first ones of a known step.
  bool in_step() const;
  /// How far back the newest operator was seen before; 0 if never.
  size_t distance() const { return distance_before(ids_.size() - 1); }
  /// The next larger such distance; 0 if there is none.
  size_t next_distance(size_t distance) const;
  /// True if the last `length` operators are those of the `length` before.
  bool repeats(size_t length) const;

  /// Knows from now on the step of `length` operators that ended `back` operators ago, and that
  /// the next one of its kind has begun.
  void learn(size_t length, size_t back);

 private:
  struct Step {
    std::vector<uint64_t> ids;
    size_t seen = 0;  // of its first operators
  };

  size_t distance_before(size_t index) const;
  void forget_oldest();

  std::vector<uint64_t> ids_;
  std::vector<uint32_t> previous_;  // index + 1 of the same operator before, or 0
  std::vector<uint32_t> newest_;    // by identity: index + 1, or 0
  std::vector<Step> known_;
};

}  // namespace torch_tpu::engine
