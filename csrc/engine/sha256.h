// SHA-256, for what is identified by its hash alone: two texts with one hash are not known to
// anybody, so that the text itself need not be kept.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace torch_tpu::engine {

using Sha256 = std::array<uint32_t, 8>;

Sha256 sha256(std::string_view text);

}  // namespace torch_tpu::engine
