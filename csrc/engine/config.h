// Everything that the environment decides, read once, in one place.
#pragma once

#include <cstdint>
#include <string>

namespace torch_tpu::engine {

enum class FallbackMode : uint8_t { Warn, Error, Silent };

struct Config {
  /// TORCH_TPU_PJRT_PLUGIN: path of a PJRT plugin; beats every other choice.
  std::string plugin_path;
  /// TORCH_TPU_CPU_DEVICES: devices of a CPU plugin.
  int cpu_devices = 1;
  /// TORCH_TPU_LAUNCH_BLOCKING=1: starts in Debug mode.
  bool launch_blocking = false;
  /// TORCH_TPU_DEFER_AND_FUSE=1: starts in Fused mode.
  bool defer_and_fuse = false;
  /// TORCH_TPU_VERBOSE=1: the plugin's own log and full error texts.
  bool verbose = false;
  /// TORCH_TPU_LOG: a list of "compiles" (a line for each program that is compiled or loaded) and
  /// "programs" (their text), to stderr.
  bool log_compiles = false;
  bool log_programs = false;
  /// TORCH_TPU_DUMP_TO: a folder to which each program's text is written; empty: nowhere.
  std::string dump_to;
  /// TORCH_TPU_CPU_FALLBACK=error|warn|silent.
  FallbackMode fallback = FallbackMode::Warn;
  /// TORCH_TPU_CACHE=0 turns the disk cache off; TORCH_TPU_CACHE_DIR is its folder.
  bool disk_cache = true;
  std::string cache_dir;
  /// TORCH_TPU_CACHE_SIZE_MB: bound of the disk cache; the least recently used go first.
  int64_t cache_bytes = int64_t{4} << 30;
  /// TORCH_TPU_PROGRAM_CACHE_MB: bound of the programs in memory; the least recently used go first.
  int64_t program_cache_bytes = int64_t{2} << 30;
  /// TORCH_TPU_MEMORY_LIMIT_MB: device memory where the plugin does not say; 0: the machine's
  /// memory.
  int64_t memory_limit = 0;
};

/// Throws std::invalid_argument, naming the variable, if one has a value that is not understood.
const Config& config();

}  // namespace torch_tpu::engine
