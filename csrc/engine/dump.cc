#include "engine/dump.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>

#include "engine/config.h"
#include "engine/files.h"
#include "engine/sha256.h"

namespace torch_tpu::engine {
namespace {

/// "add_Tensor.0123456789abcdef.mlir", of a text that begins with "module @add_Tensor {".
std::string file_name(const std::string& text) {
  const size_t start = text.find('@') + 1;
  // Names of captured functions have no bound; those of files have.
  constexpr size_t kMaxName = 100;
  const Sha256 hash = sha256(text);
  char ending[32];
  std::snprintf(ending, sizeof ending, ".%08x%08x.mlir", hash[0], hash[1]);
  return text.substr(start, std::min(text.find(' ', start) - start, kMaxName)) + ending;
}

}  // namespace

void dump_program(const std::string& text) {
  const std::string& folder = config().dump_to;
  if (folder.empty()) return;
  const std::string path = folder + "/" + file_name(text);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  if (std::filesystem::exists(path, ignored) || write_whole_file(path, {text})) return;
  static std::atomic<bool> is_told = false;
  if (is_told.exchange(true)) return;
  std::fprintf(stderr, "torch_tpu: TORCH_TPU_DUMP_TO=%s cannot be written\n", folder.c_str());
}

}  // namespace torch_tpu::engine
