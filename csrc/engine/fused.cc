#include "engine/fused.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/hash.h"
#include "engine/program_cache.h"
#include "engine/runtime.h"

namespace torch_tpu::engine {
namespace {

/// Shorter repetitions are parts of a step.
constexpr size_t kMinStep = 8;
/// Bigger programs take the compiler too long.
constexpr size_t kMaxNodes = 2048;

}  // namespace

void FusedRecorder::record(const std::shared_ptr<Program>& program, std::span<Storage* const> slots,
                           const uint32_t* words, std::span<Storage* const> fresh) {
  if (program->outputs.empty()) return;
  Recorder::record(program, slots, words, fresh);
  if (const size_t length = steps_.push(program->id)) {
    cut_step(length, nodes_.size());
  } else if (!steps_.in_step()) {
    find_step();
  }
  if (nodes_.size() >= kMaxNodes) find_step_at_limit();
  if (nodes_.size() >= kMaxNodes || bytes_ > device_.memory_limit() / 2) flush();
}

// ---- steps

/// True if the last `length` nodes do to their storages what the `length` nodes before did to
/// theirs: to the same ones, or to those made by the node `length` before, and they write the same
/// ones from outside, or new ones. A step updates something in place, as training and decoding do;
/// the layers of a model do not, nor does each update of an optimizer's loop write what the one
/// before wrote.
bool FusedRecorder::updates_same_storages(size_t length) const {
  bool updates = false;
  const size_t count = nodes_.size();
  const uint64_t start = nodes_[count > 2 * length ? count - 2 * length : 0].serial;
  for (size_t i = count; i-- > std::max(count - length, length);) {
    const auto now = slots_of_node(i), before = slots_of_node(i - length);
    if (!match(now, before, length)) return false;
    for (const Output& output : nodes_[i].program->outputs) {
      if (output.kind != Output::Kind::Slot) continue;
      const int a = now[output.index], b = before[output.index];
      const bool differs = a != b && is_outer(a) && is_outer(b);
      if (differs && slots_[a].storage->serial <= start) return false;
      updates |= a == b;
    }
  }
  return updates;
}

/// The same for nodes that update nothing, such as inference on one batch after the other: what
/// differs has come from outside in the meantime, unlike the weights of the next layer.
bool FusedRecorder::reads_same_storages(size_t length) const {
  const uint64_t start = nodes_[nodes_.size() - 2 * length].serial;
  for (size_t i = nodes_.size(); i-- > nodes_.size() - length;) {
    const auto now = slots_of_node(i), before = slots_of_node(i - length);
    if (!match(now, before, length)) return false;
    for (size_t k = 0; k < now.size(); ++k) {
      const bool differs = now[k] != before[k] && is_outer(now[k]) && is_outer(before[k]);
      if (differs && slots_[now[k]].storage->serial <= start) return false;
    }
  }
  return true;
}

bool FusedRecorder::is_outer(int slot) const {
  return slot >= 0 && slots_[slot].creator == kFromOutside;
}

/// False if two slots were made by nodes that are not `length` nodes apart.
bool FusedRecorder::match(std::span<const int> now, std::span<const int> before,
                          size_t length) const {
  for (size_t k = 0; k < now.size(); ++k) {
    if (now[k] == before[k] || now[k] < 0 || before[k] < 0) continue;
    if (is_outer(now[k]) || is_outer(before[k])) continue;
    const int64_t apart = slots_[now[k]].creator - slots_[before[k]].creator;
    if (apart != static_cast<int64_t>(length)) return false;
  }
  return true;
}

/// Called while no known step goes on.
void FusedRecorder::find_step() {
  const size_t length = steps_.distance();
  if (length < kMinStep || length > nodes_.size() || writes_ == 0) return;
  if (!steps_.repeats(length) || !updates_same_storages(length)) return;
  const size_t end = best_end(length);
  steps_.learn(length, nodes_.size() - end);
  cut_step(length, end);
}

/// So many nodes without an end: any repetition is better than cuts at arbitrary places, which
/// would give a new program each time.
void FusedRecorder::find_step_at_limit() {
  size_t best = 0;
  for (size_t d = steps_.distance(); d != 0 && 2 * d <= nodes_.size();
       d = steps_.next_distance(d)) {
    if (d >= kMinStep && steps_.repeats(d) && reads_same_storages(d)) best = d;
  }
  if (best == 0) return;
  const size_t end = best_end(best);
  steps_.learn(best, nodes_.size() - end);
  cut_step(best, end);
}

/// Where to end steps of this length: where the least bytes of recorded values live on, which is
/// usually after the optimizer's update and before the next forward pass. At most `length` - 1
/// nodes ago; the latest such place.
size_t FusedRecorder::best_end(size_t length) const {
  const std::vector<uint64_t> deaths = device_.deaths(storages());
  const size_t count = nodes_.size();
  std::vector<int64_t> change(count + 2);
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].creator == kFromOutside) continue;
    const auto bytes = static_cast<int64_t>(slots_[s].storage->base_bytes);
    change[static_cast<uint64_t>(slots_[s].creator) - first_ + 1] += bytes;
    if (deaths[s] != UINT64_MAX) change[deaths[s] - first_ + 1] -= bytes;
  }
  size_t best = count;
  int64_t live = 0, least = INT64_MAX;
  for (size_t end = 0; end <= count; ++end) {
    live += change[end];
    if (end + length > count && end > 0 && live <= least) {
      least = live;
      best = end;
    }
  }
  return best;
}

/// A step of this length ends after `end` nodes.
void FusedRecorder::cut_step(size_t length, size_t end) {
  std::vector<size_t> ends{end};
  // What came before the step is a program of its own; so is the step before, which is equal.
  while (ends.back() > length && ends.size() < 3 && ends.back() + 2 * length > nodes_.size()) {
    ends.push_back(ends.back() - length);
  }
  std::ranges::reverse(ends);
  run_pieces(ends);
}

// ---- running

void FusedRecorder::flush() {
  if (nodes_.empty()) return;
  run_pieces(std::array{nodes_.size()});
}

/// Runs the nodes up to each of these ends as a program of its own, and forgets them.
void FusedRecorder::run_pieces(std::span<const size_t> ends) {
  const std::vector<uint64_t> deaths = device_.deaths(storages());
  try {
    size_t first = 0;
    for (size_t end : ends) {
      run_piece(first, end, deaths);
      first = end;
    }
  } catch (...) {
    lose_everything();
    throw;
  }
  drop(ends.back());
}

void FusedRecorder::run_piece(size_t first, size_t last, const std::vector<uint64_t>& deaths) {
  if (last - first == 1) return run_node(first);
  // Slots of the piece, in order of first use.
  std::vector<int> local(slots_.size(), -1);
  std::vector<Storage*> storages;
  std::vector<bool> used_later(slots_.size());
  for (size_t i = first; i < nodes_.size(); ++i) {
    for (int slot : slots_of_node(i)) {
      if (slot < 0) continue;
      if (i >= last) {
        used_later[slot] = true;
      } else if (local[slot] < 0) {
        local[slot] = static_cast<int>(storages.size());
        storages.push_back(slots_[slot].storage);
      }
    }
  }
  // As it was when the last of these nodes was recorded, so that a step that is cut afterwards is
  // the same program as one that is cut at its end.
  std::vector<bool> unwanted(storages.size());
  for (size_t s = 0; s < slots_.size(); ++s) {
    if (local[s] < 0 || used_later[s]) continue;
    const bool dead = last < nodes_.size() ? deaths[s] < first_ + last : deaths[s] != UINT64_MAX;
    unwanted[local[s]] = dead;
  }
  std::shared_ptr<Program> program;
  try {
    program = fused_program(first, last, local, storages.size(), unwanted);
  } catch (const std::exception&) {
    // One by one, they tell which of them fails; and if none does, all is well.
    for (size_t i = first; i < last; ++i) run_node(i);
    return;
  }
  run(*program, device_, storages, words_.data() + nodes_[first].first_word, {});
}

void FusedRecorder::run_node(size_t node) {
  Program& program = *nodes_[node].program;
  ensure_compiled(program);
  const auto slots = slots_of_node(node);
  const size_t num_fresh = count_fresh(program);
  std::vector<Storage*> storages, fresh;
  for (size_t k = 0; k < slots.size(); ++k) {
    auto& list = k < slots.size() - num_fresh ? storages : fresh;
    list.push_back(slots[k] < 0 ? nullptr : slots_[slots[k]].storage);
  }
  run(program, device_, storages, words_.data() + nodes_[node].first_word, fresh);
}

std::shared_ptr<Program> FusedRecorder::fused_program(size_t first, size_t last,
                                                      const std::vector<int>& local,
                                                      size_t num_local,
                                                      const std::vector<bool>& unwanted) {
  // Keys of single operators begin with the number of a form, which is smaller.
  std::vector<uint64_t> key{uint64_t{1} << 63 | (last - first)};
  for (size_t i = first; i < last; ++i) {
    key.push_back(nodes_[i].program->id);
    for (int slot : slots_of_node(i)) {
      key.push_back(slot < 0 ? UINT64_MAX : static_cast<uint64_t>(local[slot]));
    }
  }
  for (bool is_unwanted : unwanted) key.push_back(is_unwanted);
  ProgramCache& cache = ProgramCache::get();
  const uint64_t hash = hash_words(key.data(), key.size());
  std::shared_ptr<Program> program = cache.find(key, hash);
  if (!program) {
    const WaitScope wait;
    program = cache.find_or_make(key, hash, [&] {
      auto made = make_program(trace_of(first, last, local, num_local, unwanted), "fused");
      ensure_compiled(*made);
      made->trace = {};
      return made;
    });
  }
  return program;
}

void FusedRecorder::lose_everything() {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const auto slots = slots_of_node(i);
    const auto lose = [&](int slot) {
      if (slot < 0) return;
      slots_[slot].storage->value.reset();
      slots_[slot].storage->is_lost = true;
    };
    for (const Output& output : nodes_[i].program->outputs) {
      if (output.kind == Output::Kind::Slot) lose(slots[output.index]);
    }
    for (size_t k = slots.size() - count_fresh(*nodes_[i].program); k < slots.size(); ++k) {
      lose(slots[k]);
    }
  }
  drop(nodes_.size());
}

}  // namespace torch_tpu::engine
