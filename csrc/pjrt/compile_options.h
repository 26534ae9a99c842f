// Options of a compilation.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace torch_tpu::pjrt {

/// The part of XLA's CompileOptionsProto that we use. Written by hand, so that no protobuf library
/// is needed.
struct CompileOptions {
  using Override = std::variant<std::string, bool, int64_t, double>;

  int num_replicas = 1;
  int num_partitions = 1;
  bool use_spmd = false;
  /// Partition with Shardy (sdy.* in the program) in place of GSPMD.
  bool use_shardy = false;
  /// How much work the compiler does for a fast program: 0 to 3, or -1 for its own choice.
  int optimization_level = -1;
  /// The program may run on any device of the client: the device is named at each execution.
  /// Needs one replica and one partition.
  bool portable = true;
  /// Devices by id, partition by partition within replica by replica. Empty: the client's default.
  std::vector<int64_t> device_ids = {};
  /// XLA options by name, e.g. {"xla_cpu_enable_fast_math", true}. The compiler refuses a name it
  /// does not know, or a value of the wrong type.
  std::map<std::string, Override> overrides = {};

  /// The serialized proto, for Client::compile(). Deterministic: fit for a cache key. Throws
  /// std::invalid_argument if the fields contradict each other.
  std::string serialize() const;
};

}  // namespace torch_tpu::pjrt
