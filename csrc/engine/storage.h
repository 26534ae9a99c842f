// The value of a tensor storage: a device buffer that can be replaced under a stable handle.
#pragma once

#include <cstddef>
#include <cstdint>

#include "pjrt/buffer.h"
#include "stablehlo/types.h"

namespace torch_tpu::engine {

class Device;

/// What a c10 storage of this device points to. Its address identifies it and is never
/// dereferenced. All fields but the identity are guarded by the device's mutex.
struct Storage {
  Device& device;
  size_t nbytes = 0;
  uintptr_t address = 0;

  /// Type of the value: dense, in memory order. Known also while there is no value.
  stablehlo::Type base;
  /// Bytes of base; may be less than nbytes by a part of an element.
  size_t base_bytes = 0;
  /// Null while nothing was written: reading then gives zeros.
  pjrt::Buffer value;
  /// The operators that were to make the value failed, and it is not there.
  bool is_lost = false;

  // ---- what the recorder knows of it (see recorder.h)
  /// Slot among the recorded operators, or -1: no recorded operator uses it, `value` is up to date.
  int slot = -1;
  /// Freed by PyTorch, but kept for the recorded operators.
  bool is_dead = false;
  /// How many operators were recorded when it was freed.
  uint64_t died = 0;
  /// Number of the allocation.
  uint64_t serial = 0;

  Storage* previous = nullptr;  // in the device's list
  Storage* next = nullptr;

  void set_base(stablehlo::Type type);
  /// False if nothing was written, nor will be by recorded operators.
  bool has_value() const { return value || slot >= 0; }
};

/// Makes room for `nbytes` on the device; throws OutOfDeviceMemory if that is more than there is.
Storage* allocate_storage(Device& device, size_t nbytes);
/// The same for a value of type `base`, of as many bytes or a part of an element less.
Storage* allocate_storage(Device& device, size_t nbytes, stablehlo::Type base);
Storage* allocate_storage(Device& device, const stablehlo::Type& base);
/// Called from any thread, with or without the GIL.
void free_storage(Storage* storage);

/// Changes the size, keeping the bytes that fit. The address changes. Blocks if there is a value.
void resize_storage(Storage& storage, size_t nbytes);

/// Makes sure that there is a value (zeros if nothing was written) of the type `base`. Throws if
/// the value was lost. The device's mutex is held.
void ensure_value(Storage& storage);

/// Makes the storage's base this type, reinterpreting its bytes. Without a value this is free; with
/// one it goes through the host and blocks. The device's mutex is held.
void retype_storage(Storage& storage, const stablehlo::Type& type);

}  // namespace torch_tpu::engine
