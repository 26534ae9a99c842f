#include "engine/disk_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "engine/config.h"
#include "engine/files.h"
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

/// A file that is open for reading. Only regular files count: others may have no end.
class InputFile {
 public:
  explicit InputFile(const std::string& path)
      : fd_(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)) {
    struct stat facts{};
    if (fd_ < 0 || fstat(fd_, &facts) != 0 || !S_ISREG(facts.st_mode)) return;
    size_ = static_cast<size_t>(facts.st_size);
  }
  ~InputFile() {
    if (fd_ >= 0) close(fd_);
  }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  size_t size() const { return size_; }

  /// False if there are no longer so many bytes.
  bool read(void* data, size_t count) {
    auto* at = static_cast<char*>(data);
    while (count > 0) {
      const ssize_t got = ::read(fd_, at, count);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      count -= static_cast<size_t>(got);
    }
    return true;
  }

  std::optional<std::string> read_text(size_t count) {
    std::string text(count, '\0');
    if (!read(text.data(), count)) return std::nullopt;
    return text;
  }

 private:
  int fd_;
  size_t size_ = 0;
};

/// The header, if the file has one that fits its size: then it is one of ours.
std::optional<Header> read_header(InputFile& file) {
  Header header;
  if (file.size() < sizeof header || !file.read(&header, sizeof header)) return std::nullopt;
  const size_t body = file.size() - sizeof header;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.key_size > body ||
      header.executable_size != body - header.key_size) {
    return std::nullopt;
  }
  return header;
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
  InputFile known(note);
  if (const auto text = known.read_text(std::min<size_t>(known.size(), 64 << 10));
      text && text->starts_with(facts)) {
    return text->substr(facts.size());
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
  InputFile file(path);
  const std::optional<Header> header = read_header(file);
  if (!header || header->key_size != key.size()) return std::nullopt;
  const std::optional<std::string> stored_key = file.read_text(header->key_size);
  if (stored_key != key) return std::nullopt;
  std::optional<std::string> executable = file.read_text(header->executable_size);
  if (!executable || header->checksum != checksum(key, *executable)) return std::nullopt;
  // The modification time is the time of last use: access times are often not kept.
  utimensat(AT_FDCWD, path.c_str(), nullptr, 0);
  return executable;
}

void DiskCache::store(const std::string& key, const std::string& executable) {
  if (!enabled()) return;
  Header header;
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.key_size = key.size();
  header.executable_size = executable.size();
  header.checksum = checksum(key, executable);
  const std::string_view bytes(reinterpret_cast<const char*>(&header), sizeof header);
  if (!write_whole_file(path_of(key), {bytes, key, executable})) return;
  std::lock_guard lock(mutex_);
  stored_since_trim_ += static_cast<int64_t>(key.size() + executable.size());
  if (stored_since_trim_ > max_bytes_ / 16) {
    stored_since_trim_ = 0;
    trim();
  }
}

void DiskCache::take_in(const std::string& path) {
  InputFile file(path);
  const auto refuse = [&](const char* why) { throw std::invalid_argument(path + ": " + why); };
  const std::optional<Header> header = read_header(file);
  if (!header) refuse("not a program file of torch_tpu, or one that is cut off");
  const std::optional<std::string> key = file.read_text(header->key_size);
  std::optional<std::string> executable;
  if (key) executable = file.read_text(header->executable_size);
  if (!executable || header->checksum != checksum(*key, *executable)) refuse("damaged");
  if (!key->starts_with(identity_ + "\n")) {
    refuse("made by another plugin, or for another processor, than this machine has");
  }
  store(*key, *executable);
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

std::string plugin_of_cache_file(const std::string& path) {
  InputFile file(path);
  const std::optional<Header> header = read_header(file);
  if (!header) return "";
  // The first line of the key is the fingerprint.
  const auto start = file.read_text(std::min<size_t>(header->key_size, 4096));
  return start ? start->substr(0, start->find('\n')) : "";
}

}  // namespace torch_tpu::engine
