// Hashes of keys and files. They only speed up a comparison of the whole key; nothing relies on
// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace torch_tpu::engine {

/// Mixes two words by a 64 x 64 -> 128 bit product, as wyhash does.
inline uint64_t mix(uint64_t a, uint64_t b) {
  const unsigned __int128 product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_words(const uint64_t* words, size_t count) {
  uint64_t h = 0x9E3779B97F4A7C15u ^ count;
  for (size_t i = 0; i < count; ++i) h = mix(h ^ words[i], 0xD6E8FEB86659FD93u);
  return h;
}

inline uint64_t hash_bytes(const void* data, size_t size, uint64_t seed) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  uint64_t h = seed ^ mix(size + 1, 0xA0761D6478BD642Fu);
  while (size >= 8) {
    uint64_t word;
    std::memcpy(&word, bytes, 8);
    h = mix(h ^ word, 0xD6E8FEB86659FD93u);
    bytes += 8;
    size -= 8;
  }
  uint64_t tail = 0;
  std::memcpy(&tail, bytes, size);
  return mix(h ^ tail, 0xE7037ED1A0B428DBu);
}

}  // namespace torch_tpu::engine
