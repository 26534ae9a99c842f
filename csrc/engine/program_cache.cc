#include "engine/program_cache.h"

#include <algorithm>
#include <cstring>

#include "engine/config.h"

namespace torch_tpu::engine {

ProgramCache& ProgramCache::get() {
  // Never destroyed: executables must not be at exit.
  static auto* instance = new ProgramCache(8192, config().program_cache_bytes);
  return *instance;
}

ProgramCache::ProgramCache(size_t capacity, int64_t max_bytes)
    : capacity_(capacity), max_bytes_(max_bytes) {
  rebuild(1024);
}

ProgramCache::Entry* ProgramCache::lookup(KeyWords key, uint64_t hash) {
  const size_t mask = buckets_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    Entry* entry = buckets_[i];
    if (!entry) return nullptr;
    if (entry->hash == hash && entry->key.size() == key.size() &&
        std::memcmp(entry->key.data(), key.data(), key.size_bytes()) == 0) {
      return entry;
    }
  }
}

std::shared_ptr<Program> ProgramCache::find(KeyWords key, uint64_t hash) {
  std::lock_guard lock(mutex_);
  Entry* entry = lookup(key, hash);
  if (!entry) return nullptr;
  entry->last_use = ++clock_;
  return entry->program;
}

std::shared_ptr<Program> ProgramCache::find_or_make(
    KeyWords key, uint64_t hash, const std::function<std::shared_ptr<Program>()>& make) {
  std::unique_lock lock(mutex_);
  while (Entry* entry = lookup(key, hash)) {
    if (entry->program) {
      entry->last_use = ++clock_;
      return entry->program;
    }
    made_.wait(lock);
  }
  Entry& entry = insert(key, hash);
  lock.unlock();
  std::shared_ptr<Program> program;
  try {
    program = make();
  } catch (...) {
    lock.lock();
    erase(&entry);
    made_.notify_all();
    throw;
  }
  lock.lock();
  entry.program = program;
  entry.last_use = ++clock_;
  made_.notify_all();
  std::vector<std::shared_ptr<Program>> dropped;
  if (entries_.size() > capacity_ || bytes() > max_bytes_) dropped = evict();
  lock.unlock();
  return program;
}

ProgramCache::Entry& ProgramCache::insert(KeyWords key, uint64_t hash) {
  auto entry = std::make_unique<Entry>();
  entry->hash = hash;
  entry->key.assign(key.begin(), key.end());
  entries_.push_back(std::move(entry));
  Entry& added = *entries_.back();
  if (entries_.size() * 2 > buckets_.size()) {
    rebuild(buckets_.size() * 2);
  } else {
    place(added);
  }
  return added;
}

void ProgramCache::erase(Entry* entry) {
  std::erase_if(entries_, [&](const auto& e) { return e.get() == entry; });
  rebuild(buckets_.size());
}

/// Programs that are compiled grow without telling, so that it is added up where one is added.
int64_t ProgramCache::bytes() const {
  int64_t sum = 0;
  for (const auto& entry : entries_) {
    if (entry->program) sum += entry->program->bytes.load(std::memory_order_relaxed);
  }
  return sum;
}

std::vector<std::shared_ptr<Program>> ProgramCache::evict() {
  std::vector<std::shared_ptr<Program>> dropped;
  std::vector<Entry*> oldest;
  for (const auto& entry : entries_) {
    if (entry->program) oldest.push_back(entry.get());
  }
  std::ranges::sort(oldest, {}, &Entry::last_use);
  oldest.pop_back();  // the one that was just made stays, whatever its size
  const size_t most = capacity_ - capacity_ / 10;
  const int64_t most_bytes = max_bytes_ - max_bytes_ / 10;
  size_t count = entries_.size();
  int64_t total = bytes();
  for (Entry* entry : oldest) {
    if (count <= most && total <= most_bytes) break;
    total -= entry->program->bytes.load(std::memory_order_relaxed);
    --count;
    dropped.push_back(std::move(entry->program));
    entry->is_evicted = true;
  }
  std::erase_if(entries_, [](const auto& entry) { return entry->is_evicted; });
  rebuild(buckets_.size());
  return dropped;
}

void ProgramCache::place(Entry& entry) {
  const size_t mask = buckets_.size() - 1;
  size_t i = entry.hash & mask;
  while (buckets_[i]) i = (i + 1) & mask;
  buckets_[i] = &entry;
}

void ProgramCache::rebuild(size_t buckets) {
  buckets_.assign(buckets, nullptr);
  for (const auto& entry : entries_) place(*entry);
}

std::shared_ptr<Program> ProgramCache::newest() {
  std::lock_guard lock(mutex_);
  return entries_.empty() ? nullptr : entries_.back()->program;
}

void ProgramCache::clear() {
  std::lock_guard lock(mutex_);
  std::erase_if(entries_, [](const auto& e) { return e->program != nullptr; });
  rebuild(buckets_.size());
}

size_t ProgramCache::release_unused() {
  std::vector<std::shared_ptr<Program>> dropped;  // destroyed without the mutex
  std::lock_guard lock(mutex_);
  for (const auto& entry : entries_) {
    if (entry->program.use_count() != 1) continue;
    dropped.push_back(std::move(entry->program));
    entry->is_evicted = true;
  }
  std::erase_if(entries_, [](const auto& entry) { return entry->is_evicted; });
  rebuild(buckets_.size());
  return dropped.size();
}

size_t ProgramCache::size() {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace torch_tpu::engine
