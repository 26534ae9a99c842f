// Unique addresses for storages: numbers that no host pointer ever has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torch_tpu::engine {

/// A range of at least `bytes` addresses that no other live storage has. The addresses are not
/// canonical on x86-64: using one as a pointer faults at once.
uintptr_t reserve_address(size_t bytes);
void release_address(uintptr_t address, size_t bytes);
/// True for addresses that reserve_address() can give.
bool is_device_address(uintptr_t address);

}  // namespace torch_tpu::engine
