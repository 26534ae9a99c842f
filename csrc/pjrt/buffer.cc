#include "pjrt/buffer.h"

#include <array>
#include <vector>

#include "pjrt/api_call.h"

namespace torch_tpu::pjrt {
namespace {

/// Most ranks that occur; more take an allocation.
constexpr size_t inline_rank = 16;

}  // namespace

void Buffer::reset() noexcept {
  if (buffer_ != nullptr) {
    TORCH_TPU_PJRT_ARGS(PJRT_Buffer_Destroy_Args, args);
    args.buffer = release();
    call_destroy<&PJRT_Api::PJRT_Buffer_Destroy>(api_, args);
  }
}

PJRT_Buffer_Type Buffer::element_type() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_ElementType_Args, args);
  args.buffer = buffer_;
  call<&PJRT_Api::PJRT_Buffer_ElementType>(api_, args);
  return args.type;
}

std::span<const int64_t> Buffer::dims() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_Dimensions_Args, args);
  args.buffer = buffer_;
  call<&PJRT_Api::PJRT_Buffer_Dimensions>(api_, args);
  return {args.dims, args.num_dims};
}

PJRT_Device* Buffer::device() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_Device_Args, args);
  args.buffer = buffer_;
  call<&PJRT_Api::PJRT_Buffer_Device>(api_, args);
  return args.device;
}

Event Buffer::ready_event() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_ReadyEvent_Args, args);
  args.buffer = buffer_;
  call<&PJRT_Api::PJRT_Buffer_ReadyEvent>(api_, args);
  return {api_, args.event};
}

void Buffer::await() const { ready_event().await(); }

bool Buffer::is_ready() const { return ready_event().is_ready(); }

size_t Buffer::on_device_size() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_OnDeviceSizeInBytes_Args, args);
  args.buffer = buffer_;
  call<&PJRT_Api::PJRT_Buffer_OnDeviceSizeInBytes>(api_, args);
  return args.on_device_size_in_bytes;
}

Event Buffer::to_host(void* dst, size_t size) const {
  // The default of the plugin is the device's layout, which need not be row-major: always ask.
  std::array<int64_t, inline_rank> inline_order;
  std::vector<int64_t> long_order;
  const size_t rank = dims().size();
  int64_t* minor_to_major = inline_order.data();
  if (rank > inline_rank) {
    long_order.resize(rank);
    minor_to_major = long_order.data();
  }
  for (size_t i = 0; i < rank; ++i) {
    minor_to_major[i] = static_cast<int64_t>(rank - 1 - i);
  }
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_MemoryLayout, layout);
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.struct_size = PJRT_Buffer_MemoryLayout_Tiled_STRUCT_SIZE;
  layout.tiled.minor_to_major = minor_to_major;
  layout.tiled.minor_to_major_size = rank;
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = buffer_;
  args.host_layout = &layout;
  args.dst = dst;
  args.dst_size = size;
  call<&PJRT_Api::PJRT_Buffer_ToHostBuffer>(api_, args);
  return {api_, args.event};
}

size_t Buffer::to_host_size() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_ToHostBuffer_Args, args);
  args.src = buffer_;
  call<&PJRT_Api::PJRT_Buffer_ToHostBuffer>(api_, args);
  return args.dst_size;
}

Buffer Buffer::copy_to_device(const Device& device) const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_CopyToDevice_Args, args);
  args.buffer = buffer_;
  args.dst_device = device.raw();
  call<&PJRT_Api::PJRT_Buffer_CopyToDevice>(api_, args);
  return {api_, args.dst_buffer};
}

uintptr_t Buffer::unsafe_pointer() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_UnsafePointer_Args, args);
  args.buffer = buffer_;
  call<&PJRT_Api::PJRT_Buffer_UnsafePointer>(api_, args);
  return args.buffer_pointer;
}

void Buffer::increase_external_reference_count() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_IncreaseExternalReferenceCount_Args, args);
  args.buffer = buffer_;
  call<&PJRT_Api::PJRT_Buffer_IncreaseExternalReferenceCount>(api_, args);
}

void Buffer::decrease_external_reference_count() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_DecreaseExternalReferenceCount_Args, args);
  args.buffer = buffer_;
  call<&PJRT_Api::PJRT_Buffer_DecreaseExternalReferenceCount>(api_, args);
}

void Buffer::mark_deleted() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_Delete_Args, args);
  args.buffer = buffer_;
  call<&PJRT_Api::PJRT_Buffer_Delete>(api_, args);
}

bool Buffer::is_deleted() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Buffer_IsDeleted_Args, args);
  args.buffer = buffer_;
  call<&PJRT_Api::PJRT_Buffer_IsDeleted>(api_, args);
  return args.is_deleted;
}

}  // namespace torch_tpu::pjrt
