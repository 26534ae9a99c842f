#include "pjrt/compile_options.h"

#include <bit>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace torch_tpu::pjrt {
namespace {

// Field numbers of xla/pjrt/proto/compile_options.proto and xla/xla_data.proto.
namespace compile_options_proto {
constexpr int executable_build_options = 3;
constexpr int compile_portable_executable = 4;
constexpr int env_option_overrides = 7;
}  // namespace compile_options_proto

namespace build_options_proto {
constexpr int num_replicas = 4;
constexpr int num_partitions = 5;
constexpr int use_spmd_partitioning = 6;
constexpr int device_assignment = 9;
constexpr int use_shardy_partitioner = 19;
constexpr int optimization_level = 24;
}  // namespace build_options_proto

namespace device_assignment_proto {
constexpr int replica_count = 1;
constexpr int computation_count = 2;
constexpr int computation_devices = 3;
constexpr int replica_device_ids = 1;
}  // namespace device_assignment_proto

namespace override_proto {
constexpr int key = 1;
constexpr int value = 2;
constexpr int string_field = 1;
constexpr int bool_field = 2;
constexpr int int_field = 3;
constexpr int double_field = 4;
}  // namespace override_proto

/// Writes the few kinds of protobuf field that are needed.
class ProtoWriter {
 public:
  void integer(int field, int64_t value) {
    tag(field, 0);
    varint(static_cast<uint64_t>(value));
  }

  void number(int field, double value) {
    tag(field, 1);
    auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i, bits >>= 8) {
      bytes_ += static_cast<char>(bits & 0xff);
    }
  }

  /// A string, or a message.
  void bytes(int field, std::string_view value) {
    tag(field, 2);
    varint(value.size());
    bytes_ += value;
  }

  std::string take() { return std::move(bytes_); }

 private:
  void tag(int field, unsigned wire_type) { varint(static_cast<uint64_t>(field) << 3 | wire_type); }

  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      bytes_ += static_cast<char>((value & 0x7f) | 0x80);
    }
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

std::string device_assignment(const CompileOptions& options) {
  ProtoWriter proto;
  proto.integer(device_assignment_proto::replica_count, options.num_replicas);
  proto.integer(device_assignment_proto::computation_count, options.num_partitions);
  for (int partition = 0; partition < options.num_partitions; ++partition) {
    // The proto goes replica by replica within partition by partition.
    ProtoWriter devices;
    for (int replica = 0; replica < options.num_replicas; ++replica) {
      devices.integer(
          device_assignment_proto::replica_device_ids,
          options.device_ids[static_cast<size_t>(replica * options.num_partitions + partition)]);
    }
    proto.bytes(device_assignment_proto::computation_devices, devices.take());
  }
  return proto.take();
}

/// A level as xla::ExecutionOptions::EffortLevel: O0 is 9, O1 is 19, ...
int64_t effort(int level) { return 10 * level + 9; }

std::string build_options(const CompileOptions& options) {
  ProtoWriter proto;
  proto.integer(build_options_proto::num_replicas, options.num_replicas);
  proto.integer(build_options_proto::num_partitions, options.num_partitions);
  if (options.use_spmd) {
    proto.integer(build_options_proto::use_spmd_partitioning, 1);
  }
  if (!options.device_ids.empty()) {
    proto.bytes(build_options_proto::device_assignment, device_assignment(options));
  }
  if (options.use_shardy) {
    proto.integer(build_options_proto::use_shardy_partitioner, 1);
  }
  if (options.optimization_level >= 0) {
    proto.integer(build_options_proto::optimization_level, effort(options.optimization_level));
  }
  return proto.take();
}

struct WriteOverride {
  ProtoWriter& proto;

  void operator()(const std::string& value) const {
    proto.bytes(override_proto::string_field, value);
  }
  void operator()(bool value) const { proto.integer(override_proto::bool_field, value ? 1 : 0); }
  void operator()(int64_t value) const { proto.integer(override_proto::int_field, value); }
  void operator()(double value) const { proto.number(override_proto::double_field, value); }
};

void validate(const CompileOptions& options) {
  if (options.num_replicas < 1 || options.num_partitions < 1) {
    throw std::invalid_argument(
        "CompileOptions: a program has at least one replica and partition.");
  }
  const auto devices =
      static_cast<size_t>(options.num_replicas) * static_cast<size_t>(options.num_partitions);
  if (options.portable && (devices != 1 || !options.device_ids.empty())) {
    throw std::invalid_argument(
        "CompileOptions: a portable program has one replica, one partition and no device of its "
        "own. Set portable = false.");
  }
  if (!options.device_ids.empty() && options.device_ids.size() != devices) {
    throw std::invalid_argument(
        "CompileOptions: device_ids must have num_replicas * num_partitions elements.");
  }
}

}  // namespace

std::string CompileOptions::serialize() const {
  validate(*this);
  ProtoWriter proto;
  proto.bytes(compile_options_proto::executable_build_options, build_options(*this));
  if (portable) {
    proto.integer(compile_options_proto::compile_portable_executable, 1);
  }
  for (const auto& [name, value] : overrides) {
    ProtoWriter setting;
    std::visit(WriteOverride{setting}, value);
    ProtoWriter entry;
    entry.bytes(override_proto::key, name);
    entry.bytes(override_proto::value, setting.take());
    proto.bytes(compile_options_proto::env_option_overrides, entry.take());
  }
  return proto.take();
}

}  // namespace torch_tpu::pjrt
