#include "engine/program_cache.h"

#include <algorithm>
#include <cstring>

namespace torch_tpu::engine {

ProgramCache& ProgramCache::get() {
  static ProgramCache* instance = new ProgramCache;  // executables must not be destroyed at exit
  return *instance;
}

ProgramCache::ProgramCache(size_t capacity) : capacity_(capacity) { rebuild(1024); }

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
  if (entries_.size() > capacity_) evict();
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

void ProgramCache::evict() {
  std::vector<uint64_t> uses;
  for (const auto& entry : entries_) {
    if (entry->program) uses.push_back(entry->last_use);
  }
  if (uses.size() < 2) return;
  const size_t count = std::max<size_t>(1, uses.size() / 10);
  std::nth_element(uses.begin(), uses.begin() + static_cast<ptrdiff_t>(count), uses.end());
  const uint64_t oldest_kept = uses[count];
  std::erase_if(entries_, [&](const auto& e) { return e->program && e->last_use < oldest_kept; });
  rebuild(buckets_.size());
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

size_t ProgramCache::size() {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace torch_tpu::engine
