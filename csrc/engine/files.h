// Files that several processes may write at once.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace torch_tpu::engine {

/// Writes the parts to the file, aside first, so that nobody sees half of it. False, and nothing is
/// left behind, if that cannot be done: no folder, no permission, no room.
bool write_whole_file(const std::string& path, std::initializer_list<std::string_view> parts);

}  // namespace torch_tpu::engine
