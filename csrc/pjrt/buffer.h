// Device buffers.
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "pjrt/device.h"
#include "pjrt/event.h"

namespace torch_tpu::pjrt {

/// Owns a PJRT_Buffer, or nothing. Move-only; two pointers wide. A buffer must be destroyed before
/// its client is; it does not hold a reference to it, because it is made and dropped several times
/// per operator.
///
/// Destroying a buffer never waits: the runtime keeps the memory until the work that uses it ends.
/// Buffers that an execution makes are usable at once: their own failure, or their producer's,
/// shows in ready_event().
class Buffer {
 public:
  Buffer() = default;
  Buffer(const PJRT_Api* api, PJRT_Buffer* buffer) : api_(api), buffer_(buffer) {}
  ~Buffer() { reset(); }

  Buffer(Buffer&& other) noexcept : api_(other.api_), buffer_(other.release()) {}
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) {
      reset();
      api_ = other.api_;
      buffer_ = other.release();
    }
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  explicit operator bool() const { return buffer_ != nullptr; }
  PJRT_Buffer* raw() const { return buffer_; }
  const PJRT_Api* api() const { return api_; }

  /// Gives up ownership.
  PJRT_Buffer* release() { return std::exchange(buffer_, nullptr); }

  /// Destroys the buffer.
  void reset() noexcept;

  /// Destroys the buffer and owns `buffer` (of the same plugin) in its place.
  void reset(PJRT_Buffer* buffer) noexcept {
    reset();
    buffer_ = buffer;
  }

  PJRT_Buffer_Type element_type() const;

  /// The sizes; they live as long as the buffer. For a bounded dynamic size this is the bound.
  std::span<const int64_t> dims() const;

  /// The device that holds the buffer.
  PJRT_Device* device() const;

  /// Becomes ready when the value is there, or with the Error of its producer. If the buffer was
  /// deleted or donated before this call, the event holds an error.
  Event ready_event() const;

  /// Waits for the value; throws the Error of its producer. Blocks: release the GIL before.
  void await() const;

  /// True if await() would not wait. Does not block.
  bool is_ready() const;

  size_t on_device_size() const;

  /// Starts a copy to host memory of at least host_byte_size() bytes, which must live until the
  /// event is ready. The host array is dense and row-major. Exception: the CPU plugin of API 0.81
  /// ignores the order asked for and copies the device's, so give results no layout of their own
  /// (`mhlo.layout_mode`) there; the default layout on CPU is row-major.
  /// Some plugins do the copy, or wait for the value, in this call: blocks, release the GIL before.
  Event to_host(void* dst, size_t size) const;

  /// The number of bytes that to_host() needs.
  size_t to_host_size() const;

  /// Copies to another device of the same client. Throws if the buffer lies on `device` already.
  Buffer copy_to_device(const Device& device) const;

  /// The address of the device memory; on a CPU plugin, of host memory. On CPU the value may be
  /// read there after await(), while the buffer is neither deleted nor donated. This call may wait
  /// until the value is there: blocks, release the GIL before.
  uintptr_t unsafe_pointer() const;

  /// Keeps the memory from being deleted, donated or moved while it is used from outside.
  void increase_external_reference_count() const;
  void decrease_external_reference_count() const;

  /// Gives the memory back, once running work that uses it ends; the object stays, as deleted.
  void mark_deleted() const;

  /// True after mark_deleted(), and after the buffer was donated to an execution.
  bool is_deleted() const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Buffer* buffer_ = nullptr;
};

}  // namespace torch_tpu::pjrt
