#include "engine/steps.h"

#include <algorithm>

namespace torch_tpu::engine {
namespace {

constexpr size_t kHistory = 1 << 16;
constexpr size_t kMaxKnown = 8;  // training, evaluation, and a few more

}  // namespace

size_t Steps::push(uint64_t id) {
  if (ids_.size() == kHistory) forget_oldest();
  if (newest_.size() <= id) newest_.resize(id + id / 2 + 64);
  ids_.push_back(id);
  previous_.push_back(newest_[id]);
  newest_[id] = static_cast<uint32_t>(ids_.size());
  size_t ended = 0;
  for (Step& step : known_) {
    step.seen = id == step.ids[step.seen] ? step.seen + 1 : id == step.ids[0] ? 1 : 0;
    if (step.seen < step.ids.size()) continue;
    step.seen = 0;
    ended = std::max(ended, step.ids.size());
  }
  return ended;
}

bool Steps::in_step() const {
  return std::ranges::any_of(known_, [](const Step& step) { return step.seen > 0; });
}

size_t Steps::distance_before(size_t index) const {
  return previous_[index] == 0 ? 0 : index + 1 - previous_[index];
}

size_t Steps::next_distance(size_t distance) const {
  const size_t further = distance_before(ids_.size() - 1 - distance);
  return further == 0 ? 0 : distance + further;
}

bool Steps::repeats(size_t length) const {
  if (length == 0 || 2 * length > ids_.size()) return false;
  const auto newest = ids_.rbegin();
  const auto count = static_cast<ptrdiff_t>(length);
  return std::equal(newest, newest + count, newest + count);
}

void Steps::learn(size_t length, size_t back) {
  const auto end = ids_.end() - static_cast<ptrdiff_t>(back);
  Step step{{end - static_cast<ptrdiff_t>(length), end}, back};
  std::erase_if(known_, [&](const Step& old) { return old.ids == step.ids; });
  if (known_.size() == kMaxKnown) known_.erase(known_.begin());
  known_.push_back(std::move(step));
}

void Steps::forget_oldest() {
  constexpr uint32_t kDropped = kHistory / 2;
  ids_.erase(ids_.begin(), ids_.begin() + kDropped);
  previous_.erase(previous_.begin(), previous_.begin() + kDropped);
  const auto shift = [](uint32_t& index) { index = index > kDropped ? index - kDropped : 0; };
  std::ranges::for_each(previous_, shift);
  std::ranges::for_each(newest_, shift);
}

}  // namespace torch_tpu::engine
