// Executables on disk, so that a program is compiled once per machine and not once per process.
//
// One file per program. Its name is a hash; the file holds the whole key (plugin, CPU, options,
// program text), which is compared, and a checksum of everything. Files are written aside and
// renamed, so a reader sees a whole file or none, and several processes may share a folder. No
// failure here is an error for the user: the program is compiled.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace torch_tpu::engine {

class DiskCache {
 public:
  /// The cache that the environment configures.
  static DiskCache& get();
  /// `identity` is what executables depend on besides program and options: plugin and processor.
  DiskCache(std::string folder, int64_t max_bytes, std::string identity);

  bool enabled() const { return !folder_.empty(); }
  const std::string& folder() const { return folder_; }

  std::string key(std::string_view program, std::string_view compile_options) const;
  std::optional<std::string> load(const std::string& key);
  void store(const std::string& key, const std::string& executable);
  void remove(const std::string& key);

  /// Takes in a file that another folder of this kind has, under its right name. Throws
  /// std::invalid_argument, saying why, if the file is none of ours, is damaged, or was made by
  /// another plugin or for another processor than this cache is for.
  void take_in(const std::string& file);

 private:
  std::string path_of(const std::string& key) const;
  /// Removes the least recently used files until the folder is within its bound.
  void trim();

  std::string folder_;
  int64_t max_bytes_;
  std::string identity_;
  std::mutex mutex_;
  int64_t stored_since_trim_;
};

/// The plugin (its fingerprint) that made the executable in this file, without a look at the rest;
/// "" if the file is none of ours.
std::string plugin_of_cache_file(const std::string& path);

}  // namespace torch_tpu::engine
