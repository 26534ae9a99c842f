// Compiled programs.
#pragma once

#include <pjrt_c_api.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pjrt/error.h"

namespace torch_tpu::pjrt {

/// Bytes that a program needs on the device (and on the host, where it uses host memory).
struct CompiledMemoryStats {
  int64_t generated_code = 0;
  int64_t arguments = 0;
  int64_t outputs = 0;
  /// Part of the arguments that is reused for outputs.
  int64_t alias = 0;
  int64_t temporaries = 0;
  int64_t host_generated_code = 0;
  int64_t host_arguments = 0;
  int64_t host_outputs = 0;
  int64_t host_alias = 0;
  int64_t host_temporaries = 0;
  /// Zero if the plugin is too old to tell.
  int64_t peak = 0;
};

struct OptimizedProgram {
  /// "hlo" (a serialized HloModuleProto), "hlo_with_config" or "mlir".
  std::string format;
  std::string code;
};

/// A compiled program, not necessarily one that can run here. Owns its PJRT_Executable. Move-only.
class Executable {
 public:
  Executable() = default;
  Executable(const PJRT_Api* api, PJRT_Executable* executable);
  ~Executable() { reset(); }

  Executable(Executable&& other) noexcept
      : api_(other.api_),
        executable_(std::exchange(other.executable_, nullptr)),
        num_outputs_(other.num_outputs_) {}
  Executable& operator=(Executable&& other) noexcept;
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  explicit operator bool() const { return executable_ != nullptr; }
  PJRT_Executable* raw_executable() const { return executable_; }

  /// Outputs per device.
  size_t num_outputs() const { return num_outputs_; }
  std::string name() const;
  size_t num_replicas() const;
  size_t num_partitions() const;
  std::vector<PJRT_Buffer_Type> output_types() const;
  std::vector<std::vector<int64_t>> output_dims() const;

  /// A form that Client::load() of the same library (not: the same API) accepts; bound to the
  /// machine's CPU features too. Takes milliseconds: release the GIL before.
  std::string serialize() const;

  /// Nothing if the plugin has none.
  std::optional<std::string> fingerprint() const;
  std::optional<int64_t> generated_code_size() const;

  /// The compiler's estimates, e.g. "flops", "bytes accessed", "optimal_seconds". Nothing if the
  /// plugin has none.
  std::optional<std::map<std::string, double>> cost_analysis() const;
  std::optional<CompiledMemoryStats> memory_stats() const;

  /// The program after optimization. Nothing if the plugin does not give it.
  std::optional<OptimizedProgram> optimized_program() const;

 protected:
  void reset() noexcept;

  const PJRT_Api* api_ = nullptr;

 private:
  PJRT_Executable* executable_ = nullptr;
  size_t num_outputs_ = 0;
};

/// A program that its client can run. Must be destroyed before the client. Running it from several
/// threads at once is safe.
class LoadedExecutable : public Executable {
 public:
  LoadedExecutable() = default;
  /// Takes ownership of `loaded`, also if it throws.
  LoadedExecutable(const PJRT_Api* api, PJRT_LoadedExecutable* loaded);
  ~LoadedExecutable() { reset_loaded(); }

  LoadedExecutable(LoadedExecutable&& other) noexcept
      : Executable(std::move(other)), loaded_(std::exchange(other.loaded_, nullptr)) {}
  LoadedExecutable& operator=(LoadedExecutable&& other) noexcept;

  explicit operator bool() const { return loaded_ != nullptr; }
  PJRT_LoadedExecutable* raw() const { return loaded_; }

  /// Starts the program on one device: the only call on the hot path. Allocates nothing.
  ///
  /// `args`            `num_args` inputs, on that device; their types are the caller's to check
  ///                   (CPU plugins accept a wrong type of the right size).
  /// `outs`            room for num_outputs() buffers, which the caller then owns. Untouched if
  ///                   this throws.
  /// `device`          null: the device it was compiled for. Set it only for a portable program.
  /// `non_donatable`   indices of inputs that must survive although the program may donate them.
  /// `done`            null, or gets an event (the caller then owns it) for the end of the run.
  /// `launch_id`       for a program over several devices that is started by one call per device:
  ///                   the same nonzero number in the calls of one launch, and another for each
  ///                   launch. Without it, the devices of some CPU plugins do not find each other
  ///                   at a collective, and after 40 s the plugin ends the process.
  ///
  /// Does not wait for the inputs or the result, but blocks when too many programs are in flight
  /// (32 on CPU) and may run a small program in the call: release the GIL before, where the cost
  /// of that (about 0.1 us) matters less than the wait.
  void execute(PJRT_Buffer* const* args, size_t num_args, PJRT_Buffer** outs,
               PJRT_Device* device = nullptr, std::span<const int64_t> non_donatable = {},
               PJRT_Event** done = nullptr, int launch_id = 0) const {
    run(&args, 1, num_args, &outs, device, non_donatable, done, launch_id);
  }

  /// Starts a program with several replicas or partitions on all of its devices, in the order of
  /// its device assignment. `args[d]` has `num_args` inputs and `outs[d]` room for num_outputs()
  /// buffers; `done`, if not null, has room for an event per device.
  void execute_on_all(std::span<PJRT_Buffer* const* const> args, size_t num_args,
                      std::span<PJRT_Buffer** const> outs,
                      std::span<const int64_t> non_donatable = {},
                      PJRT_Event** done = nullptr) const {
    run(args.data(), args.size(), num_args, outs.data(), nullptr, non_donatable, done, 0);
  }

  /// The devices it was compiled for, of this process.
  std::span<PJRT_Device* const> addressable_devices() const;

 private:
  void run(PJRT_Buffer* const* const* args, size_t num_devices, size_t num_args,
           PJRT_Buffer** const* outs, PJRT_Device* device, std::span<const int64_t> non_donatable,
           PJRT_Event** done, int launch_id) const {
    PJRT_ExecuteOptions options{};
    options.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE;
    options.launch_id = launch_id;
    options.non_donatable_input_indices = non_donatable.data();
    options.num_non_donatable_input_indices = non_donatable.size();
    PJRT_LoadedExecutable_Execute_Args call{};
    call.struct_size = PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE;
    call.executable = loaded_;
    call.options = &options;
    call.argument_lists = args;
    call.num_devices = num_devices;
    call.num_args = num_args;
    call.output_lists = outs;
    call.device_complete_events = done;
    call.execute_device = device;
    check(api_, api_->PJRT_LoadedExecutable_Execute(&call));
  }

  void reset_loaded() noexcept;

  PJRT_LoadedExecutable* loaded_ = nullptr;
};

}  // namespace torch_tpu::pjrt
