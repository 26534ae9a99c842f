#include "engine/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "engine/config.h"
#include "engine/hash.h"
#include "engine/runtime.h"

namespace torch_tpu::engine {

namespace fs = std::filesystem;

namespace {

constexpr char kMagic[8] = {'T', 'P', 'U', 'E', 'X', 'E', '0', '1'};
constexpr std::string_view kSuffix = ".exe";

struct Header {
  char magic[8];
  uint64_t key_size;
  uint64_t executable_size;
  uint64_t checksum;
};

uint64_t checksum(std::string_view key, std::string_view executable) {
  return hash_bytes(executable.data(), executable.size(), hash_bytes(key.data(), key.size(), 1));
}

/// Executables of a CPU plugin hold instructions of this processor.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, out;
  while (std::getline(info, line) && line.find("flags") != 0) {
    if (line.find("model name") == 0) out += line;
  }
  return out + line;
}

std::optional<std::string> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  std::string content(static_cast<size_t>(std::max<std::streamoff>(file.tellg(), 0)), '\0');
  file.seekg(0);
  if (!file.read(content.data(), static_cast<std::streamsize>(content.size()))) return std::nullopt;
  return content;
}

/// The plugin's fingerprint, noted in the folder with the file's size and time: hashing a library
/// of hundreds of megabytes at every start would cost more than the cache saves.
std::string plugin_fingerprint(const pjrt::Plugin& plugin, const std::string& folder) {
  struct stat file{};
  if (stat(plugin.path().c_str(), &file) != 0) return plugin.fingerprint();
  const std::string facts = plugin.path() + "\n" + std::to_string(file.st_size) + "\n" +
                            std::to_string(file.st_mtim.tv_sec) + "." +
                            std::to_string(file.st_mtim.tv_nsec) + "\n";
  const std::string note =
      folder + "/" + std::to_string(hash_bytes(plugin.path().data(), plugin.path().size(), 4)) +
      ".plugin";
  if (const auto known = read_file(note); known && known->rfind(facts, 0) == 0) {
    return known->substr(facts.size());
  }
  const std::string fingerprint = plugin.fingerprint();
  const std::string aside = note + "." + std::to_string(getpid()) + ".tmp";
  std::ofstream(aside, std::ios::binary) << facts << fingerprint;
  std::error_code ignored;
  fs::rename(aside, note, ignored);
  return fingerprint;
}

std::string identity(const std::string& folder) {
  std::error_code ignored;
  fs::create_directories(folder, ignored);
  const pjrt::Client& client = Runtime::get().client();
  return plugin_fingerprint(client.plugin(), folder) + "\n" + client.platform_version() + "\n" +
         (client.platform_name() == "cpu" ? processor() : client.addressable_devices()[0].kind());
}

}  // namespace

DiskCache& DiskCache::get() {
  static DiskCache* instance =
      config().disk_cache
          ? new DiskCache(config().cache_dir, config().cache_bytes, identity(config().cache_dir))
          : new DiskCache("", 0, "");
  return *instance;
}

DiskCache::DiskCache(std::string folder, int64_t max_bytes, std::string identity)
    : folder_(std::move(folder)),
      max_bytes_(max_bytes),
      identity_(std::move(identity)),
      stored_since_trim_(max_bytes) {  // the first store of a process trims what others left
  std::error_code ignored;
  if (!folder_.empty()) fs::create_directories(folder_, ignored);
}

std::string DiskCache::key(std::string_view program, std::string_view compile_options) const {
  std::string key = identity_;
  key += '\n';
  key += compile_options;
  key += '\n';
  key += program;
  return key;
}

std::string DiskCache::path_of(const std::string& key) const {
  char name[40];
  std::snprintf(name, sizeof name, "%016llx%016llx",
                static_cast<unsigned long long>(hash_bytes(key.data(), key.size(), 2)),
                static_cast<unsigned long long>(hash_bytes(key.data(), key.size(), 3)));
  return folder_ + "/" + name + std::string(kSuffix);
}

std::optional<std::string> DiskCache::load(const std::string& key) {
  if (!enabled()) return std::nullopt;
  const std::string path = path_of(key);
  const std::optional<std::string> content = read_file(path);
  if (!content) return std::nullopt;
  Header header;
  if (content->size() < sizeof header) return std::nullopt;
  std::memcpy(&header, content->data(), sizeof header);
  const size_t body = content->size() - sizeof header;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_size > body ||
      header.executable_size != body - header.key_size) {
    return std::nullopt;
  }
  const std::string_view all(*content);
  const std::string_view stored_key = all.substr(sizeof header, header.key_size);
  const std::string_view executable = all.substr(sizeof header + header.key_size);
  if (stored_key != key || header.checksum != checksum(stored_key, executable)) return std::nullopt;
  // The modification time is the time of last use: access times are often not kept.
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return std::string(executable);
}

void DiskCache::store(const std::string& key, const std::string& executable) {
  if (!enabled()) return;
  Header header;
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_size = key.size();
  header.executable_size = executable.size();
  header.checksum = checksum(key, executable);
  const std::string aside =
      folder_ + "/." + std::to_string(getpid()) + "." + std::to_string(temporary_++) + ".tmp";
  std::error_code ignored;
  {
    std::ofstream file(aside, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(&header), sizeof header);
    file.write(key.data(), static_cast<std::streamsize>(key.size()));
    file.write(executable.data(), static_cast<std::streamsize>(executable.size()));
    file.close();
    if (!file) {  // no folder, no permission, no room
      fs::remove(aside, ignored);
      return;
    }
  }
  fs::rename(aside, path_of(key), ignored);
  if (ignored) fs::remove(aside, ignored);
  std::lock_guard lock(mutex_);
  stored_since_trim_ += static_cast<int64_t>(key.size() + executable.size());
  if (stored_since_trim_ > max_bytes_ / 16) {
    stored_since_trim_ = 0;
    trim();
  }
}

void DiskCache::remove(const std::string& key) {
  std::error_code ignored;
  if (enabled()) fs::remove(path_of(key), ignored);
}

void DiskCache::trim() {
  struct File {
    fs::file_time_type time;
    int64_t size;
    fs::path path;
  };
  std::vector<File> files;
  int64_t total = 0;
  std::error_code error;
  const auto now = fs::file_time_type::clock::now();
  for (fs::directory_iterator it(folder_, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // by another process
    const auto time = it->last_write_time(gone);
    const auto size = static_cast<int64_t>(it->file_size(gone));
    if (gone) continue;
    const fs::path& path = it->path();
    if (path.extension() == ".tmp" && now - time > std::chrono::hours(1)) {
      fs::remove(path, gone);  // left by a process that died while writing
    } else if (path.extension() == kSuffix) {
      files.push_back({time, size, path});
      total += size;
    }
  }
  std::sort(files.begin(), files.end(),
            [](const File& a, const File& b) { return a.time < b.time; });
  for (const File& file : files) {
    if (total <= max_bytes_) break;
    std::error_code gone;
    fs::remove(file.path, gone);
    total -= file.size;
  }
}

}  // namespace torch_tpu::engine
