#include "pjrt/device.h"

#include "pjrt/api_call.h"

namespace torch_tpu::pjrt {
namespace {

PJRT_DeviceDescription* description_of(const PJRT_Api* api, PJRT_Device* device) {
  TORCH_TPU_PJRT_ARGS(PJRT_Device_GetDescription_Args, args);
  args.device = device;
  call<&PJRT_Api::PJRT_Device_GetDescription>(api, args);
  return args.device_description;
}

int id_of(const PJRT_Api* api, PJRT_DeviceDescription* description) {
  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_Id_Args, args);
  args.device_description = description;
  call<&PJRT_Api::PJRT_DeviceDescription_Id>(api, args);
  return args.id;
}

std::optional<int64_t> value_if(bool is_set, int64_t value) {
  return is_set ? std::optional(value) : std::nullopt;
}

}  // namespace

DeviceDescription::DeviceDescription(const PJRT_Api* api, PJRT_DeviceDescription* raw)
    : api_(api), raw_(raw), id_(id_of(api, raw)) {}

int DeviceDescription::process_index() const {
  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_ProcessIndex_Args, args);
  args.device_description = raw_;
  call<&PJRT_Api::PJRT_DeviceDescription_ProcessIndex>(api_, args);
  return args.process_index;
}

std::string DeviceDescription::kind() const {
  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_Kind_Args, args);
  args.device_description = raw_;
  call<&PJRT_Api::PJRT_DeviceDescription_Kind>(api_, args);
  return {args.device_kind, args.device_kind_size};
}

std::string DeviceDescription::to_string() const {
  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_ToString_Args, args);
  args.device_description = raw_;
  call<&PJRT_Api::PJRT_DeviceDescription_ToString>(api_, args);
  return {args.to_string, args.to_string_size};
}

Attributes DeviceDescription::attributes() const {
  TORCH_TPU_PJRT_ARGS(PJRT_DeviceDescription_Attributes_Args, args);
  args.device_description = raw_;
  if (!call_if_implemented<&PJRT_Api::PJRT_DeviceDescription_Attributes>(api_, args)) {
    return {};
  }
  return to_attributes(args.attributes, args.num_attributes);
}

Device::Device(const PJRT_Api* api, PJRT_Device* raw)
    : api_(api), raw_(raw), description_(api, description_of(api, raw)) {}

int Device::local_hardware_id() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Device_LocalHardwareId_Args, args);
  args.device = raw_;
  call<&PJRT_Api::PJRT_Device_LocalHardwareId>(api_, args);
  return args.local_hardware_id;
}

std::optional<MemoryStats> Device::memory_stats() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Device_MemoryStats_Args, args);
  args.device = raw_;
  if (!call_if_implemented<&PJRT_Api::PJRT_Device_MemoryStats>(api_, args)) {
    return std::nullopt;
  }
  MemoryStats stats;
  stats.bytes_in_use = args.bytes_in_use;
  stats.peak_bytes_in_use = value_if(args.peak_bytes_in_use_is_set, args.peak_bytes_in_use);
  stats.num_allocs = value_if(args.num_allocs_is_set, args.num_allocs);
  stats.largest_alloc_size = value_if(args.largest_alloc_size_is_set, args.largest_alloc_size);
  stats.bytes_limit = value_if(args.bytes_limit_is_set, args.bytes_limit);
  stats.bytes_reserved = value_if(args.bytes_reserved_is_set, args.bytes_reserved);
  stats.peak_bytes_reserved = value_if(args.peak_bytes_reserved_is_set, args.peak_bytes_reserved);
  stats.bytes_reservable_limit =
      value_if(args.bytes_reservable_limit_is_set, args.bytes_reservable_limit);
  stats.largest_free_block_bytes =
      value_if(args.largest_free_block_bytes_is_set, args.largest_free_block_bytes);
  stats.pool_bytes = value_if(args.pool_bytes_is_set, args.pool_bytes);
  stats.peak_pool_bytes = value_if(args.peak_pool_bytes_is_set, args.peak_pool_bytes);
  return stats;
}

}  // namespace torch_tpu::pjrt
