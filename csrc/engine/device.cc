#include "engine/device.h"

#include <sys/sysinfo.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "engine/capture.h"
#include "engine/config.h"
#include "engine/dtype.h"
#include "engine/fused.h"
#include "engine/mode.h"
#include "engine/runtime.h"
#include "engine/sites.h"

namespace torch_tpu::engine {

using stablehlo::DType;
using stablehlo::Type;

namespace {

/// Up to this size a read waits for the value and copies it under the lock; PJRT's own transfer
/// costs tens of microseconds whatever the size.
constexpr size_t kDirectReadBytes = 64 << 10;

constexpr const char* kRemedy = "Free tensors that are no longer needed, or use smaller ones.";

int64_t limit_of(const pjrt::Device& device, bool is_host) {
  if (config().memory_limit > 0) return config().memory_limit;
  if (const auto stats = device.memory_stats(); stats && stats->bytes_limit)
    return *stats->bytes_limit;
  if (!is_host) return INT64_MAX;
  struct sysinfo info{};
  sysinfo(&info);
  return static_cast<int64_t>(info.totalram) * info.mem_unit;
}

std::unique_ptr<Recorder> recorder_of(Device& device, Schedule schedule) {
  if (schedule == Schedule::Capture) return std::make_unique<CaptureRecorder>(device);
  return std::make_unique<FusedRecorder>(device);
}

std::string text_of(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  char text[48];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.2f %s", size, kUnits[unit]);
  return text;
}

}  // namespace

Device::Device(pjrt::Client& client, const pjrt::Device& device, int index, Schedule schedule)
    : client_(client),
      device_(device),
      index_(index),
      schedule_(schedule),
      is_host_(client.platform_name() == "cpu"),
      memory_limit_(schedule == Schedule::Capture ? INT64_MAX : limit_of(device, is_host_)),
      recorder_(recorder_of(*this, schedule)) {}

Device::~Device() = default;

std::unique_lock<std::mutex> Device::lock() {
  refuse_bad_fork();
  std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) {
    const WaitScope wait;
    lock.lock();
  }
  return lock;
}

std::unique_lock<std::mutex> Device::lock_value(Storage& storage) {
  if (Capture* capture = Capture::current(); capture && &capture->device() != this) {
    capture->refuse("it reads or replaces a tensor's values from the host while it runs");
  }
  auto held = lock();
  if (storage.slot >= 0) recorder_->flush();
  return held;
}

MemoryCounters Device::memory() {
  std::lock_guard lock(memory_mutex_);
  return memory_;
}

void Device::reset_peak_memory() {
  std::lock_guard lock(memory_mutex_);
  memory_.peak_allocated = memory_.allocated;
  memory_.peak_count = memory_.allocations - memory_.frees;
}

double Device::memory_fraction() {
  std::lock_guard lock(memory_mutex_);
  return memory_fraction_;
}

void Device::set_memory_fraction(double fraction) {
  std::lock_guard lock(memory_mutex_);
  memory_fraction_ = fraction;
}

int64_t Device::usable() const {
  if (memory_fraction_ >= 1) return memory_limit_;
  return static_cast<int64_t>(static_cast<double>(memory_limit_) * memory_fraction_);
}

void Device::require_room(int64_t bytes) {
  if (bytes <= usable() - memory_.allocated) return;
  ++memory_.out_of_memory;
  throw OutOfDeviceMemory("tpu:" + std::to_string(index_) +
                          " is out of memory: tried to allocate " + text_of(bytes) + ", but " +
                          usage_now() + ". " + kRemedy);
}

void Device::throw_out_of_memory(const std::string& problem) {
  std::lock_guard lock(memory_mutex_);
  ++memory_.out_of_memory;
  throw OutOfDeviceMemory("tpu:" + std::to_string(index_) + " is out of memory: " + problem + ". " +
                          usage_now() + ". " + kRemedy);
}

std::string Device::usage() {
  std::lock_guard lock(memory_mutex_);
  return usage_now();
}

std::string Device::usage_now() const {
  std::map<size_t, size_t> counts;  // of storages by their size
  for (const Storage* s = live_; s; s = s->next) ++counts[s->nbytes];
  std::vector<std::pair<size_t, size_t>> largest(counts.begin(), counts.end());
  std::ranges::sort(largest, std::ranges::greater(),
                    [](const auto& holder) { return holder.first * holder.second; });
  std::string text = text_of(memory_.allocated) + " of " + text_of(usable()) + " are in use by " +
                     std::to_string(memory_.allocations - memory_.frees) + " tensors";
  constexpr size_t kMost = 5;
  for (size_t i = 0; i < std::min(largest.size(), kMost); ++i) {
    const auto [bytes, count] = largest[i];
    if (bytes == 0) break;
    text +=
        (i ? ", " : ": ") + std::to_string(count) + " of " + text_of(static_cast<int64_t>(bytes));
  }
  return largest.size() > kMost ? text + ", ..." : text;
}

void Device::check_room(const Type& type) {
  int64_t bytes = stablehlo::byte_size(type.dtype);
  for (int64_t size : type.dims) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) bytes = INT64_MAX;
  }
  std::lock_guard lock(memory_mutex_);
  require_room(bytes);
}

void Device::grow(size_t bytes) {
  const auto wanted = static_cast<int64_t>(bytes);
  require_room(wanted);
  memory_.allocated += wanted;
  memory_.allocated_total += wanted;
  memory_.peak_allocated = std::max(memory_.peak_allocated, memory_.allocated);
}

void Device::shrink(size_t bytes) {
  memory_.allocated -= static_cast<int64_t>(bytes);
  memory_.freed_total += static_cast<int64_t>(bytes);
}

void Device::add(Storage& storage) {
  std::lock_guard lock(memory_mutex_);
  grow(storage.nbytes);
  ++memory_.allocations;
  memory_.peak_count = std::max(memory_.peak_count, memory_.allocations - memory_.frees);
  storage.serial = ++serial_;
  storage.next = live_;
  if (live_) live_->previous = &storage;
  live_ = &storage;
}

bool Device::remove(Storage& storage) {
  std::lock_guard lock(memory_mutex_);
  shrink(storage.nbytes);
  ++memory_.frees;
  if (storage.previous) {
    storage.previous->next = storage.next;
  } else {
    live_ = storage.next;
  }
  if (storage.next) storage.next->previous = storage.previous;
  if (storage.slot < 0) return true;
  storage.is_dead = true;
  storage.died = recorded_.load(std::memory_order_relaxed);
  return false;
}

std::vector<Storage*> Device::release(std::span<Storage* const> storages) {
  std::vector<Storage*> dead;
  std::lock_guard lock(memory_mutex_);
  for (Storage* storage : storages) {
    storage->slot = -1;
    if (storage->is_dead) dead.push_back(storage);
  }
  return dead;
}

std::vector<uint64_t> Device::deaths(std::span<Storage* const> storages) {
  std::vector<uint64_t> result;
  std::lock_guard lock(memory_mutex_);
  for (const Storage* s : storages) result.push_back(s->is_dead ? s->died : UINT64_MAX);
  return result;
}

void Device::change_size(Storage& storage, size_t nbytes) {
  std::lock_guard lock(memory_mutex_);
  if (nbytes > storage.nbytes) {
    grow(nbytes - storage.nbytes);
  } else {
    shrink(storage.nbytes - nbytes);
  }
  storage.nbytes = nbytes;
}

Storage* Device::find(uintptr_t address) {
  std::lock_guard lock(memory_mutex_);
  for (Storage* s = live_; s; s = s->next) {
    if (address >= s->address && address - s->address < std::max<size_t>(s->nbytes, 1)) return s;
  }
  return nullptr;
}

std::vector<std::pair<uintptr_t, size_t>> Device::storages() {
  std::vector<std::pair<uintptr_t, size_t>> result;
  std::lock_guard lock(memory_mutex_);
  for (Storage* s = live_; s; s = s->next) result.emplace_back(s->address, s->nbytes);
  return result;
}

pjrt::Buffer Device::upload(const void* data, const Type& type) {
  refuse_bad_fork();
  return with_room([&] {
    return client_.buffer_from_host(data, to_pjrt(type.dtype), type.dims, {}, device_,
                                    pjrt::HostBufferSemantics::ImmutableOnlyDuringCall);
  });
}

void Device::download(Storage& storage, void* dst) {
  download_part(storage, 0, storage.base_bytes, dst);
}

void Device::download_part(Storage& storage, size_t first, size_t count, void* dst) {
  if (count == 0) return;
  std::unique_lock lock = lock_value(storage);
  if (!storage.value) {
    if (storage.is_lost) ensure_value(storage);  // throws
    std::memset(dst, 0, count);
    return;
  }
  if (is_host_ && count <= kDirectReadBytes) {
    // The value may be replaced, even dropped, while we wait without the lock; then the newer one
    // is as good as any.
    while (storage.value && !storage.value.is_ready()) {
      const pjrt::Event ready = storage.value.ready_event();
      lock.unlock();
      ready.await();
      lock.lock();
    }
    if (!storage.value) {
      std::memset(dst, 0, count);
      return;
    }
    storage.value.await();  // throws the error of its producer
    const auto* source = reinterpret_cast<const std::byte*>(storage.value.unsafe_pointer());
    std::memcpy(dst, source + first, count);
    return;
  }
  if (first == 0 && count == storage.base_bytes) {
    const pjrt::Event done = storage.value.to_host(dst, count);
    lock.unlock();
    done.await();
    return;
  }
  auto whole = std::make_unique<std::byte[]>(storage.base_bytes);
  const pjrt::Event done = storage.value.to_host(whole.get(), storage.base_bytes);
  lock.unlock();
  done.await();
  std::memcpy(dst, whole.get() + first, count);
}

pjrt::Buffer& Device::error_word() {
  if (!error_word_) {
    const std::array<int64_t, 4> none{};
    error_word_ = upload(none.data(), {DType::S64, {4}});
  }
  return error_word_;
}

void Device::set_error_word(pjrt::Buffer buffer) {
  error_word_ = std::move(buffer);
  error_pending_ = true;
}

void Device::raise_pending_error() {
  std::array<int64_t, 4> word{};
  {
    std::unique_lock lock = this->lock();
    recorder_->flush();
    // Programs that may fail keep replacing the word; whichever is newest covers all before it.
    while (error_pending_ && !error_word_.is_ready()) {
      const pjrt::Event ready = error_word_.ready_event();
      lock.unlock();
      try {
        ready.await();
      } catch (const pjrt::Error&) {
        // Read below, where it can be cleared.
      }
      lock.lock();
    }
    if (!error_pending_) return;
    error_pending_ = false;
    const pjrt::Buffer newest = std::exchange(error_word_, {});
    newest.to_host(word.data(), sizeof word)
        .await();  // throws if a program that was to write it failed
    if (word[0] == 0) return;
  }
  const auto [site, value, size, dim] = word;
  std::string where = site_name(site);
  std::string message = where + ": index " + std::to_string(value) + " is out of range for ";
  message += dim >= 0 ? "dimension " + std::to_string(dim) + " of size " : "size ";
  message += std::to_string(size);
  if (eager_mode() != EagerMode::DeferNeverAndLaunchBlocking) {
    message +=
        ". The device found it, and it is reported when something is read back: set "
        "TORCH_TPU_LAUNCH_BLOCKING=1 to get the error at the call that did it.";
  }
  throw DeviceIndexError(message);
}

std::vector<pjrt::Event> Device::outstanding() {
  std::vector<pjrt::Event> events;
  const auto held = lock();
  recorder_->flush();
  std::lock_guard memory_lock(memory_mutex_);
  for (Storage* s = live_; s; s = s->next) {
    if (s->value && !s->value.is_ready()) events.push_back(s->value.ready_event());
  }
  return events;
}

void Device::synchronize() {
  for (const pjrt::Event& event : outstanding()) event.await();
  raise_pending_error();
}

}  // namespace torch_tpu::engine
