#include "engine/address.h"

#include <array>
#include <bit>
#include <mutex>
#include <vector>

namespace torch_tpu::engine {
namespace {

constexpr uintptr_t kFirst = uintptr_t{1} << 60;
constexpr uintptr_t kLast = uintptr_t{1} << 62;
constexpr int kSmallestClass = 6;  // 64 bytes: tensors stay aligned for whoever asks

/// Freed ranges by size class, newest first, as an allocator would reuse them.
struct Space {
  std::mutex mutex;
  uintptr_t next = kFirst;
  std::array<std::vector<uintptr_t>, 64> free;
};

Space& space() {
  static Space* instance = new Space;  // storages may be freed while the process ends
  return *instance;
}

int size_class(size_t bytes) {
  const int bits = bytes <= 1 ? 0 : std::bit_width(bytes - 1);
  return bits < kSmallestClass ? kSmallestClass : bits;
}

}  // namespace

uintptr_t reserve_address(size_t bytes) {
  const int c = size_class(bytes);
  Space& s = space();
  std::lock_guard lock(s.mutex);
  if (!s.free[c].empty()) {
    const uintptr_t address = s.free[c].back();
    s.free[c].pop_back();
    return address;
  }
  const uintptr_t address = s.next;
  s.next += uintptr_t{1} << c;
  return address;
}

void release_address(uintptr_t address, size_t bytes) {
  Space& s = space();
  std::lock_guard lock(s.mutex);
  s.free[size_class(bytes)].push_back(address);
}

bool is_device_address(uintptr_t address) { return address >= kFirst && address < kLast; }

}  // namespace torch_tpu::engine
