#include "engine/recorder.h"

#include <algorithm>
#include <utility>

namespace torch_tpu::engine {
namespace {

bool writes_slots(const Program& program) {
  return std::ranges::any_of(program.outputs,
                             [](const Output& o) { return o.kind == Output::Kind::Slot; });
}

/// The same reference with the slots of another trace.
void renumber(TensorRef& ref, std::span<const int> slots) {
  if (ref.slot >= 0) ref.slot = slots[ref.slot];
}

void renumber(TraceArgument& argument, std::span<const int> slots) {
  if (auto* ref = std::get_if<TensorRef>(&argument.data)) renumber(*ref, slots);
  if (auto* refs = std::get_if<std::vector<TensorRef>>(&argument.data)) {
    for (TensorRef& ref : *refs) renumber(ref, slots);
  }
}

/// A fresh result as a write to the slot of its storage; nothing if it is empty.
Result write_of(const Result& fresh, int slot) {
  Result result;
  result.kind = Result::Kind::Write;
  const auto kind = slot < 0 ? lowering::ViewKind::Empty : lowering::ViewKind::Whole;
  result.target = {slot, {kind, fresh.type.dtype, fresh.type.dims, fresh.strides}, 0};
  return result;
}

}  // namespace

size_t count_fresh(const Program& program) {
  return static_cast<size_t>(
      std::ranges::count(program.results(), Result::Kind::Fresh, &Result::kind));
}

void Recorder::add_slot(Storage& storage, int64_t creator) {
  storage.slot = static_cast<int>(slots_.size());
  slots_.push_back({&storage, creator});
}

int Recorder::slot_of(Storage& storage) {
  if (storage.slot < 0) add_slot(storage, kFromOutside);
  return storage.slot;
}

std::vector<Storage*> Recorder::storages() const {
  std::vector<Storage*> all;
  for (const Slot& slot : slots_) all.push_back(slot.storage);
  return all;
}

std::span<const int> Recorder::slots_of_node(size_t node) const {
  const size_t first = nodes_[node].first_slot;
  const size_t end = node + 1 < nodes_.size() ? nodes_[node + 1].first_slot : node_slots_.size();
  return {node_slots_.data() + first, end - first};
}

void Recorder::record(const std::shared_ptr<Program>& program, std::span<Storage* const> slots,
                      const uint32_t* words, std::span<Storage* const> fresh) {
  if (program->outputs.empty()) return;
  const auto number = static_cast<int64_t>(first_ + nodes_.size());
  nodes_.push_back({program, node_slots_.size(), words_.size(), device_.serial()});
  for (Storage* storage : slots) node_slots_.push_back(slot_of(*storage));
  for (Storage* storage : fresh) {
    if (storage->base_bytes == 0) {
      node_slots_.push_back(-1);
      continue;
    }
    add_slot(*storage, number);
    node_slots_.push_back(storage->slot);
    bytes_ += static_cast<int64_t>(storage->base_bytes);
  }
  words_.insert(words_.end(), words, words + program->param_words);
  if (writes_slots(*program)) ++writes_;
  device_.set_recorded(first_ + nodes_.size());
}

Trace Recorder::trace_of(size_t first, size_t last, const std::vector<int>& local, size_t num_local,
                         std::vector<bool> unwanted) const {
  Trace trace;
  trace.slots.resize(num_local);
  trace.unwanted = std::move(unwanted);
  trace.params.emplace();
  for (size_t i = first; i < last; ++i) {
    const Program& program = *nodes_[i].program;
    std::vector<int> slots;
    for (int slot : slots_of_node(i)) slots.push_back(slot < 0 ? -1 : local[slot]);
    Call call = program.trace.calls.front();
    for (size_t s = 0; s < program.trace.slots.size(); ++s) {
      trace.slots[slots[s]] = program.trace.slots[s];
    }
    for (TraceArgument& argument : call.args) renumber(argument, slots);
    size_t next_fresh = program.trace.slots.size();
    for (Result& result : call.results) {
      if (result.kind == Result::Kind::Write) renumber(result.target, slots);
      if (result.kind != Result::Kind::Fresh) continue;
      const int slot = slots[next_fresh++];
      if (slot >= 0) trace.slots[slot] = result.base;
      result = write_of(result, slot);
    }
    for (lowering::Param param : program.params) {
      param.call = static_cast<int32_t>(i - first);
      param.word += trace.param_words;
      trace.params->push_back(param);
    }
    trace.param_words += program.param_words;
    trace.calls.push_back(std::move(call));
  }
  return trace;
}

/// Forgets the first nodes, which have run.
void Recorder::drop(size_t count) {
  std::vector<Storage*> used = storages();
  const std::vector<Slot> old_slots = std::exchange(slots_, {});
  const std::vector<int> old_node_slots = std::exchange(node_slots_, {});
  const std::vector<Node> old_nodes = std::exchange(nodes_, {});
  const std::vector<uint32_t> old_words = std::exchange(words_, {});
  first_ += count;
  bytes_ = 0;
  writes_ = 0;
  std::vector<int> renamed(old_slots.size(), -1);
  for (size_t i = count; i < old_nodes.size(); ++i) {
    const size_t begin = old_nodes[i].first_slot;
    const size_t end =
        i + 1 < old_nodes.size() ? old_nodes[i + 1].first_slot : old_node_slots.size();
    Node node = old_nodes[i];
    node.first_slot = node_slots_.size();
    node.first_word = words_.size();
    for (size_t k = begin; k < end; ++k) {
      const int old = old_node_slots[k];
      if (old >= 0 && renamed[old] < 0) {
        renamed[old] = static_cast<int>(slots_.size());
        slots_.push_back(old_slots[old]);
        Slot& slot = slots_.back();
        if (slot.creator < static_cast<int64_t>(first_)) {
          slot.creator = kFromOutside;
        } else {
          bytes_ += static_cast<int64_t>(slot.storage->base_bytes);
        }
        used[old] = nullptr;
      }
      node_slots_.push_back(old < 0 ? -1 : renamed[old]);
    }
    const auto words = old_words.begin() + static_cast<ptrdiff_t>(old_nodes[i].first_word);
    words_.insert(words_.end(), words, words + node.program->param_words);
    if (writes_slots(*node.program)) ++writes_;
    nodes_.push_back(std::move(node));
  }
  std::erase(used, nullptr);
  for (Storage* dead : device_.release(used)) delete dead;
  for (size_t s = 0; s < slots_.size(); ++s) slots_[s].storage->slot = static_cast<int>(s);
}

}  // namespace torch_tpu::engine
