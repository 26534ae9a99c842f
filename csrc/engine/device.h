// One device of the client: its lock, memory statistics and error word.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "engine/fork.h"
#include "engine/room.h"
#include "engine/storage.h"
#include "pjrt/client.h"

namespace torch_tpu::engine {

class Recorder;

/// The device has no room. Becomes torch.OutOfMemoryError.
class OutOfDeviceMemory : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An index outside its dimension, found on the device. Becomes IndexError.
class DeviceIndexError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct MemoryCounters {
  int64_t allocated = 0, peak_allocated = 0;
  int64_t allocations = 0, frees = 0;  // number of storages
  int64_t peak_count = 0;              // of storages at once
  int64_t allocated_total = 0, freed_total = 0;
  int64_t out_of_memory = 0;
};

/// What becomes of the operators that are called on a device.
enum class Schedule : uint8_t {
  Eager,    // they run, at once or fused, as the eager mode says
  Capture,  // they are recorded and never run: see capture.h
};

class Device {
 public:
  Device(pjrt::Client& client, const pjrt::Device& device, int index,
         Schedule schedule = Schedule::Eager);
  ~Device();

  pjrt::Client& client() const { return client_; }
  const pjrt::Device& pjrt() const { return device_; }
  int index() const { return index_; }
  bool captures() const { return schedule_ == Schedule::Capture; }
  /// True if device memory is host memory, so that small reads need no transfer.
  bool is_host() const { return is_host_; }
  int64_t memory_limit() const { return memory_limit_; }
  /// The part of it that storages may fill, from 0 to 1.
  double memory_fraction();
  void set_memory_fraction(double fraction);

  /// "The mutex": it serializes executions, and every change of a storage's value. Whoever waits
  /// for it lets the interpreter's other threads run, so its holder may wait for the interpreter.
  /// Refused in a forked child, where the thread that holds it may not exist.
  std::unique_lock<std::mutex> lock();

  /// What is recorded and has not run yet. The mutex is held.
  Recorder& recorder() { return *recorder_; }
  /// The mutex, after what is recorded has been run if it makes or reads the value of this storage.
  /// May block.
  std::unique_lock<std::mutex> lock_value(Storage& storage);

  // ---- memory
  MemoryCounters memory();
  void reset_peak_memory();
  /// Counts and lists the storage; throws OutOfDeviceMemory if it does not fit.
  void add(Storage& storage);
  /// False if recorded operators still use the storage, and the recorder will delete it.
  bool remove(Storage& storage);
  /// Sorts storages that recorded operators used, and no longer do, into living and dead ones. The
  /// caller deletes the dead.
  std::vector<Storage*> release(std::span<Storage* const> storages);
  /// How many operators had been recorded when each died, or UINT64_MAX if it lives.
  std::vector<uint64_t> deaths(std::span<Storage* const> storages);
  /// Tells the number of operators recorded so far, for the storages that die from now on.
  void set_recorded(uint64_t count) { recorded_.store(count, std::memory_order_relaxed); }
  /// Number of the newest allocation.
  uint64_t serial() const { return serial_.load(std::memory_order_relaxed); }
  /// Throws OutOfDeviceMemory if a new value of this type would not fit.
  void check_room(const stablehlo::Type& type);
  void change_size(Storage& storage, size_t nbytes);
  /// What storages take, and the five sizes that take most: "1.50 GiB of 2.00 GiB are in use by 12
  /// tensors: 3 of 400.00 MiB, ...".
  std::string usage();
  /// Runs an action of the plugin that needs device memory, as engine::with_room() does. Throws
  /// OutOfDeviceMemory, saying who has the memory, if there is still none.
  template <class F>
  auto with_room(const F& action) -> decltype(action()) {
    try {
      return engine::with_room(action);
    } catch (const pjrt::Error& error) {
      if (error.code() != pjrt::Code::ResourceExhausted) throw;
      throw_out_of_memory(error.what());
    }
  }
  /// The live storage of this device that the address is within, or null. Walks all storages.
  Storage* find(uintptr_t address);
  /// (address, bytes) of each live storage.
  std::vector<std::pair<uintptr_t, size_t>> storages();

  // ---- host transfers. `type` tells the dims; data is dense and row-major.
  /// Copies host memory (in this call) into a new buffer.
  pjrt::Buffer upload(const void* data, const stablehlo::Type& type);
  /// Waits for the storage's value and copies it to `dst`; zeros if there is none. Blocks.
  void download(Storage& storage, void* dst);
  /// Copies `count` bytes from byte `first` of the value; on host devices without a transfer of the
  /// rest. Blocks.
  void download_part(Storage& storage, size_t first, size_t count, void* dst);

  // ---- errors found on the device
  /// The error word as an operand. The mutex is held.
  pjrt::Buffer& error_word();
  void set_error_word(pjrt::Buffer buffer);
  /// If programs that may have found an error ran since the last call: waits for them, and throws
  /// DeviceIndexError if one did. Blocks.
  void raise_pending_error();

  /// Waits for all values that live storages have or will have. Blocks. Throws the first failure.
  void synchronize();
  /// Events of the values that are not ready yet; empty if the device is idle.
  std::vector<pjrt::Event> outstanding();

 private:
  pjrt::Client& client_;
  pjrt::Device device_;
  int index_;
  Schedule schedule_;
  bool is_host_;
  int64_t memory_limit_;
  double memory_fraction_ = 1;  // guarded by memory_mutex_
  std::mutex mutex_;
  std::unique_ptr<Recorder> recorder_;
  std::atomic<uint64_t> recorded_{0}, serial_{0};

  std::mutex memory_mutex_;
  // memory_mutex_ is held
  void require_room(int64_t bytes);
  int64_t usable() const;
  std::string usage_now() const;
  [[noreturn]] void throw_out_of_memory(const std::string& problem);
  void grow(size_t bytes);
  void shrink(size_t bytes);
  MemoryCounters memory_;
  Storage* live_ = nullptr;  // list of all storages, guarded by memory_mutex_

  pjrt::Buffer error_word_;
  bool error_pending_ = false;
};

}  // namespace torch_tpu::engine
