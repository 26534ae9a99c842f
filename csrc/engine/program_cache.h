// Programs in memory, by their full key.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/program.h"

namespace torch_tpu::engine {

using KeyWords = std::span<const uint64_t>;

/// Thread-safe. A hit compares the whole key. Concurrent misses on one key make the program once.
/// Holds at most `capacity` programs, and at most `max_bytes` of host memory for them, as far as
/// that is known: when a program more makes it too full, the least recently used go until a tenth
/// is free. A program in use lives on outside.
class ProgramCache {
 public:
  static ProgramCache& get();
  explicit ProgramCache(size_t capacity = 8192, int64_t max_bytes = INT64_MAX);

  /// Null if there is none.
  std::shared_ptr<Program> find(KeyWords key, uint64_t hash);
  /// Finds, waits for another thread that is making it, or makes it. If make() throws, nothing is
  /// kept, and a waiting thread tries for itself. Blocks.
  std::shared_ptr<Program> find_or_make(KeyWords key, uint64_t hash,
                                        const std::function<std::shared_ptr<Program>()>& make);
  /// The program that was made last; null if there is none.
  std::shared_ptr<Program> newest();
  void clear();
  /// Drops the programs that nobody uses; gives their number.
  size_t release_unused();
  size_t size();

 private:
  struct Entry {
    uint64_t hash = 0;
    std::vector<uint64_t> key;
    std::shared_ptr<Program> program;  // null while it is being made
    uint64_t last_use = 0;
    bool is_evicted = false;
  };

  Entry* lookup(KeyWords key, uint64_t hash);
  Entry& insert(KeyWords key, uint64_t hash);
  void erase(Entry* entry);
  int64_t bytes() const;
  /// Gives what it drops, to be destroyed without the mutex.
  std::vector<std::shared_ptr<Program>> evict();
  void place(Entry& entry);
  void rebuild(size_t buckets);

  size_t capacity_;
  int64_t max_bytes_;
  std::mutex mutex_;
  std::condition_variable made_;
  uint64_t clock_ = 0;
  std::vector<std::unique_ptr<Entry>> entries_;
  std::vector<Entry*> buckets_;  // open addressing, linear probing, power of two
};

}  // namespace torch_tpu::engine
