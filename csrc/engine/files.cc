#include "engine/files.h"

#include <filesystem>
#include <fstream>
#include <random>

namespace torch_tpu::engine {

namespace fs = std::filesystem;

bool write_whole_file(const std::string& path, std::initializer_list<std::string_view> parts) {
  // Processes of several machines or containers may share the folder, so that their numbers do not
  // make a name unique.
  std::random_device random;
  const fs::path aside = fs::path(path).replace_filename("." + std::to_string(random()) + "." +
                                                         std::to_string(random()) + ".tmp");
  std::error_code error;
  {
    std::ofstream file(aside, std::ios::binary | std::ios::trunc);
    for (const std::string_view part : parts) {
      file.write(part.data(), static_cast<std::streamsize>(part.size()));
    }
    file.close();
    if (!file) error = std::make_error_code(std::errc::io_error);
  }
  if (!error) fs::rename(aside, path, error);
  if (!error) return true;
  fs::remove(aside, error);
  return false;
}

}  // namespace torch_tpu::engine
