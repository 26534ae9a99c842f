#include "engine/compile_log.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "engine/config.h"

namespace torch_tpu::engine {
namespace {

using Calls = std::vector<std::shared_ptr<const CallInfo>>;

constexpr size_t kMaxRecords = 512;
/// Of all records together, at 16 bytes.
constexpr size_t kMaxCalls = 1 << 15;
constexpr size_t kMaxShown = 3;

std::atomic<std::string (*)()> caller_hook{nullptr};

struct Entry {
  CompileRecord record;
  Calls calls;
};

struct Log {
  std::mutex mutex;
  uint64_t count = 0;
  size_t num_calls = 0;
  std::deque<Entry> entries;
};

Log& log() {
  static Log* instance = new Log;
  return *instance;
}

struct Difference {
  KeyPart::Kind kind;
  std::string text;
};
using Differences = std::vector<Difference>;

/// Axes that only one of them has follow from others that both have.
Differences differences(const CallInfo& before, const CallInfo& now) {
  std::unordered_map<std::string_view, std::string_view> old;
  for (const KeyPart& part : before.parts) old.emplace(part.what, part.value);
  Differences out;
  for (const KeyPart& part : now.parts) {
    const auto found = old.find(part.what);
    if (found == old.end() || found->second == part.value) continue;
    out.push_back({part.kind, part.what + ": " + std::string(found->second) + " -> " + part.value});
  }
  return out;
}

bool same_operators(const Calls& a, const Calls& b) {
  return std::ranges::equal(a, b, [](const auto& x, const auto& y) { return x->name == y->name; });
}

/// Calls of the same operators.
Differences differences(const Calls& before, const Calls& now) {
  Differences out;
  for (size_t i = 0; i < now.size(); ++i) {
    if (before[i] == now[i]) continue;
    for (Difference& difference : differences(*before[i], *now[i])) {
      if (now.size() > 1) {
        difference.text =
            "operator " + std::to_string(i + 1) + ", " + now[i]->name + ": " + difference.text;
      }
      out.push_back(std::move(difference));
    }
  }
  return out;
}

const char* hint_for(KeyPart::Kind kind) {
  switch (kind) {
    case KeyPart::Kind::Shape:
      return "each size is a program of its own: pad sizes that change to a few common ones, or "
             "use "
             "torch.compile(dynamic=True)";
    case KeyPart::Kind::DType:
      return "each dtype is a program of its own: convert once, outside of the loop";
    case KeyPart::Kind::Layout:
      return "how a tensor lies in memory is part of the program: .contiguous() or .clone() makes "
             "tensors alike";
    case KeyPart::Kind::Number:
      return "this number decides the program: keep it the same, where that is possible";
    case KeyPart::Kind::Setting:
      return "this setting is part of the program: change it outside of loops";
    default:
      return "";
  }
}

void explain(CompileRecord& record, const Calls& now, const std::deque<Entry>& earlier) {
  std::optional<Differences> least;
  const Calls* nearest = nullptr;  // of other operators
  for (auto entry = earlier.rbegin(); entry != earlier.rend(); ++entry) {
    if (entry->calls.empty()) continue;
    if (!same_operators(entry->calls, now)) {
      if (!nearest && entry->calls.size() > 1) nearest = &entry->calls;
      continue;
    }
    Differences found = differences(entry->calls, now);
    if (!least || found.size() < least->size()) least = std::move(found);
  }
  if (!least && (now.size() == 1 || !nearest)) {
    record.reason = now.size() == 1 ? "the first call of this operator" : "the first such program";
  } else if (!least) {
    size_t i = 0;
    while (i < std::min(now.size(), nearest->size()) && now[i]->name == (*nearest)[i]->name) ++i;
    record.reason = "other operators than in the program before, from operator " +
                    std::to_string(i + 1) + " on: ";
    record.reason += (i < nearest->size() ? (*nearest)[i]->name : "the end") + " -> " +
                     (i < now.size() ? now[i]->name : "the end");
    record.hint =
        "a program that is cut at another place is another one: read values, and call "
        "synchronize(), at the same place of each step";
  } else if (least->empty()) {
    record.reason = now.size() == 1 ? "it was compiled before, and was dropped from memory"
                                    : "other results are read later than before, or other tensors "
                                      "share memory";
  } else {
    for (size_t i = 0; i < std::min(least->size(), kMaxShown); ++i) {
      record.reason += (i ? "; " : "") + (*least)[i].text;
    }
    if (least->size() > kMaxShown) {
      record.reason += "; and " + std::to_string(least->size() - kMaxShown) + " more";
    }
    record.hint = hint_for(least->front().kind);
  }
}

/// "add", or "42 operators: linear (12), add (8), ..."
std::string names_of(const Calls& calls) {
  if (calls.size() == 1) return calls.front()->name;
  std::vector<std::pair<std::string, size_t>> counts;
  std::unordered_map<std::string, size_t> position;
  for (const auto& call : calls) {
    const auto [at, is_new] = position.emplace(call->name, counts.size());
    if (is_new) counts.emplace_back(call->name, 0);
    ++counts[at->second].second;
  }
  std::ranges::stable_sort(counts,
                           [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out = std::to_string(calls.size()) + " operators: ";
  constexpr size_t kMaxNames = 8;
  for (size_t i = 0; i < std::min(counts.size(), kMaxNames); ++i) {
    out += (i ? ", " : "") + counts[i].first;
    if (counts[i].second > 1) out += " (" + std::to_string(counts[i].second) + ")";
  }
  return counts.size() > kMaxNames ? out + ", ..." : out;
}

void add(Log& log, Entry entry) {
  entry.record.number = ++log.count;
  log.num_calls += entry.calls.size();
  log.entries.push_back(std::move(entry));
  if (log.entries.size() > kMaxRecords) {
    log.num_calls -= log.entries.front().calls.size();
    log.entries.pop_front();
  }
  for (auto old = log.entries.begin(); log.num_calls > kMaxCalls && old != log.entries.end() - 1;
       ++old) {
    log.num_calls -= old->calls.size();
    old->calls = {};
  }
}

}  // namespace

void set_caller_hook(std::string (*hook)()) { caller_hook.store(hook); }

void note_compile(const Trace& trace, double milliseconds, bool from_disk) {
  Entry entry;
  for (const Call& call : trace.calls) {
    if (call.info) entry.calls.push_back(call.info);
  }
  if (entry.calls.empty()) return;
  if (const auto hook = caller_hook.load()) entry.record.where = hook();
  entry.record.operators = names_of(entry.calls);
  entry.record.num_operators = entry.calls.size();
  entry.record.milliseconds = milliseconds;
  entry.record.from_disk = from_disk;
  Log& all = log();
  std::string line;
  {
    std::lock_guard lock(all.mutex);
    explain(entry.record, entry.calls, all.entries);
    if (config().log_compiles) line = "torch_tpu: " + to_string(entry.record) + "\n";
    add(all, std::move(entry));
  }
  if (!line.empty()) std::fputs(line.c_str(), stderr);  // in one call: lines stay whole
}

std::vector<CompileRecord> compile_records() {
  Log& all = log();
  std::lock_guard lock(all.mutex);
  std::vector<CompileRecord> out;
  for (const Entry& entry : all.entries) out.push_back(entry.record);
  return out;
}

std::string to_string(const CompileRecord& record) {
  char time[32];
  std::snprintf(time, sizeof time, "%.1f ms", record.milliseconds);
  std::string out = record.from_disk ? "loaded " : "compiled ";
  out += record.operators + " in " + time;
  if (!record.where.empty()) out += " at " + record.where;
  out += ": " + record.reason;
  return record.hint.empty() ? out : out + " (" + record.hint + ")";
}

}  // namespace torch_tpu::engine
