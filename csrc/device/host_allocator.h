// "Pinned" host memory: aligned memory that is known to be ours.
#pragma once

#include <ATen/core/CachingHostAllocator.h>

namespace torch_tpu::device {

/// PJRT has no call that pages host memory in and locks it, so this is plain memory, 64-byte
/// aligned (as zero-copy transfers want it) and remembered, so that is_pinned() tells the truth.
at::HostAllocator* host_allocator();

/// True if the address lies in memory of host_allocator().
bool is_pinned(const void* address);

}  // namespace torch_tpu::device
