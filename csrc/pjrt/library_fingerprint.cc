#include "pjrt/library_fingerprint.h"

#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "pjrt/error.h"

namespace torch_tpu::pjrt {
namespace {

using Bytes = std::span<const std::byte>;

/// A file mapped for reading.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat status{};
    if (file < 0 || ::fstat(file, &status) != 0 || status.st_size == 0) {
      const std::string reason = std::strerror(errno);
      if (file >= 0) {
        ::close(file);
      }
      throw PluginError("Cannot read the PJRT plugin '" + path + "': " + reason + ".");
    }
    size_ = static_cast<size_t>(status.st_size);
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_POPULATE, file, 0);
    const std::string reason = std::strerror(errno);
    ::close(file);
    if (data_ == MAP_FAILED) {
      throw PluginError("Cannot map the PJRT plugin '" + path + "': " + reason + ".");
    }
  }
  ~MappedFile() { ::munmap(data_, size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  Bytes bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  size_t size_ = 0;
};

std::string to_hex(Bytes bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (std::byte byte : bytes) {
    const auto value = std::to_integer<unsigned>(byte);
    text += digits[value >> 4];
    text += digits[value & 15];
  }
  return text;
}

/// Reads a T at `offset`, if the file reaches that far.
template <class T>
std::optional<T> read_at(Bytes file, uint64_t offset) {
  if (offset > file.size() || file.size() - offset < sizeof(T)) {
    return std::nullopt;
  }
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

constexpr uint64_t align4(uint64_t size) { return (size + 3) & ~uint64_t{3}; }

std::optional<Bytes> build_id_in_notes(Bytes notes) {
  while (const auto header = read_at<Elf64_Nhdr>(notes, 0)) {
    const uint64_t name = sizeof(Elf64_Nhdr);
    const uint64_t description = name + align4(header->n_namesz);
    const uint64_t end = description + align4(header->n_descsz);
    if (end > notes.size()) {
      return std::nullopt;
    }
    if (header->n_type == NT_GNU_BUILD_ID && header->n_namesz == 4 &&
        std::memcmp(notes.data() + name, ELF_NOTE_GNU, 4) == 0) {
      return notes.subspan(description, header->n_descsz);
    }
    notes = notes.subspan(end);
  }
  return std::nullopt;
}

std::optional<Bytes> find_build_id(Bytes file) {
  const auto elf = read_at<Elf64_Ehdr>(file, 0);
  if (!elf || std::memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
      elf->e_ident[EI_CLASS] != ELFCLASS64) {
    return std::nullopt;
  }
  for (unsigned i = 0; i < elf->e_phnum; ++i) {
    const auto segment = read_at<Elf64_Phdr>(file, elf->e_phoff + uint64_t{i} * elf->e_phentsize);
    if (!segment || segment->p_type != PT_NOTE || segment->p_offset > file.size() ||
        segment->p_filesz > file.size() - segment->p_offset) {
      continue;
    }
    if (auto id = build_id_in_notes(file.subspan(segment->p_offset, segment->p_filesz))) {
      return id;
    }
  }
  return std::nullopt;
}

/// 64x64 -> 128 bit product, folded: mixes each input bit into the whole word.
uint64_t fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// A 256-bit hash at about the speed of memory, not a cryptographic one: it tells builds of a
/// library apart, it does not defend against someone who forges one (who could as well replace the
/// cache). Four lanes, so that the multiplications overlap.
std::array<uint64_t, 4> hash_bytes(Bytes bytes) {
  // Odd constants with no pattern (the fractional parts of square roots of primes).
  constexpr std::array<uint64_t, 4> keys = {0x6a09e667f3bcc909, 0xbb67ae8584caa73b,
                                            0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1};
  constexpr size_t block = sizeof(keys);
  std::array<uint64_t, 4> state = keys;
  const auto mix = [&](const std::byte* data) {
    std::array<uint64_t, 4> words;
    std::memcpy(words.data(), data, block);
    for (size_t lane = 0; lane < state.size(); ++lane) {
      // Adding the word once more keeps a product of zero from erasing the lane's history.
      state[lane] = fold(state[lane] ^ words[lane], keys[lane]) + words[lane];
    }
  };
  size_t done = 0;
  for (; bytes.size() - done >= block; done += block) {
    mix(bytes.data() + done);
  }
  std::array<std::byte, block> tail{};
  std::ranges::copy(bytes.subspan(done), tail.begin());
  mix(tail.data());
  for (uint64_t& lane : state) {
    lane = fold(lane ^ bytes.size(), keys[0]);
  }
  return state;
}

}  // namespace

std::string library_fingerprint(const std::string& path) {
  const MappedFile file(path);
  if (const auto id = find_build_id(file.bytes())) {
    return "build-id:" + to_hex(*id);
  }
  const auto hash = hash_bytes(file.bytes());
  return "hash:" + to_hex(std::as_bytes(std::span(hash)));
}

}  // namespace torch_tpu::pjrt
