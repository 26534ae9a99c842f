// Devices of a client.
#pragma once

#include <pjrt_c_api.h>

#include <cstdint>
#include <optional>
#include <string>

#include "pjrt/named_value.h"

namespace torch_tpu::pjrt {

/// Statistics of a device's allocator. Only `bytes_in_use` is always known.
struct MemoryStats {
  int64_t bytes_in_use = 0;
  std::optional<int64_t> peak_bytes_in_use;
  std::optional<int64_t> num_allocs;
  std::optional<int64_t> largest_alloc_size;
  std::optional<int64_t> bytes_limit;
  std::optional<int64_t> bytes_reserved;
  std::optional<int64_t> peak_bytes_reserved;
  std::optional<int64_t> bytes_reservable_limit;
  std::optional<int64_t> largest_free_block_bytes;
  std::optional<int64_t> pool_bytes;
  std::optional<int64_t> peak_pool_bytes;
};

/// What a device is; a topology has these without any device being there. A plain reference:
/// copyable, valid as long as the client or topology it came from.
class DeviceDescription {
 public:
  DeviceDescription(const PJRT_Api* api, PJRT_DeviceDescription* raw);

  PJRT_DeviceDescription* raw() const { return raw_; }

  /// Unique among all devices of the platform, on all hosts.
  int id() const { return id_; }
  int process_index() const;
  /// The model, e.g. "TPU v6 lite" or "cpu".
  std::string kind() const;
  /// Short text for users, e.g. "CpuDevice(id=0)".
  std::string to_string() const;
  Attributes attributes() const;

 private:
  const PJRT_Api* api_;
  PJRT_DeviceDescription* raw_;
  int id_;
};

/// A device that a client can use. A plain reference: copyable, valid as long as the client.
class Device {
 public:
  Device(const PJRT_Api* api, PJRT_Device* raw);

  PJRT_Device* raw() const { return raw_; }
  const DeviceDescription& description() const { return description_; }

  int id() const { return description_.id(); }
  std::string kind() const { return description_.kind(); }
  std::string to_string() const { return description_.to_string(); }
  Attributes attributes() const { return description_.attributes(); }

  /// Number of the device on this host, or -1 if it has none.
  int local_hardware_id() const;

  /// Nothing if the plugin does not keep statistics (the CPU plugins do not).
  std::optional<MemoryStats> memory_stats() const;

 private:
  const PJRT_Api* api_;
  PJRT_Device* raw_;
  DeviceDescription description_;
};

}  // namespace torch_tpu::pjrt
