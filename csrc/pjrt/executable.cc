#include "pjrt/executable.h"

#include "pjrt/api_call.h"
#include "pjrt/named_value.h"

namespace torch_tpu::pjrt {
namespace {

/// Calls a function of an executable that the plugin may not have; true if `args` is filled in.
template <auto Member, class Args>
bool ask(const PJRT_Api* api, PJRT_Executable* executable, Args& args) {
  args.executable = executable;
  return call_if_implemented<Member>(api, args);
}

void destroy(const PJRT_Api* api, PJRT_LoadedExecutable* loaded) noexcept {
  TORCH_TPU_PJRT_ARGS(PJRT_LoadedExecutable_Destroy_Args, args);
  args.executable = loaded;
  call_destroy<&PJRT_Api::PJRT_LoadedExecutable_Destroy>(api, args);
}

PJRT_Executable* executable_of(const PJRT_Api* api, PJRT_LoadedExecutable* loaded) {
  TORCH_TPU_PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable_Args, args);
  args.loaded_executable = loaded;
  call<&PJRT_Api::PJRT_LoadedExecutable_GetExecutable>(api, args);
  return args.executable;
}

}  // namespace

Executable::Executable(const PJRT_Api* api, PJRT_Executable* executable)
    : api_(api), executable_(executable) {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_NumOutputs_Args, args);
  args.executable = executable;
  try {
    call<&PJRT_Api::PJRT_Executable_NumOutputs>(api, args);
  } catch (...) {
    reset();
    throw;
  }
  num_outputs_ = args.num_outputs;
}

Executable& Executable::operator=(Executable&& other) noexcept {
  if (this != &other) {
    reset();
    api_ = other.api_;
    executable_ = std::exchange(other.executable_, nullptr);
    num_outputs_ = other.num_outputs_;
  }
  return *this;
}

void Executable::reset() noexcept {
  if (executable_ != nullptr) {
    TORCH_TPU_PJRT_ARGS(PJRT_Executable_Destroy_Args, args);
    args.executable = std::exchange(executable_, nullptr);
    call_destroy<&PJRT_Api::PJRT_Executable_Destroy>(api_, args);
  }
}

std::string Executable::name() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_Name_Args, args);
  args.executable = executable_;
  call<&PJRT_Api::PJRT_Executable_Name>(api_, args);
  return {args.executable_name, args.executable_name_size};
}

size_t Executable::num_replicas() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_NumReplicas_Args, args);
  args.executable = executable_;
  call<&PJRT_Api::PJRT_Executable_NumReplicas>(api_, args);
  return args.num_replicas;
}

size_t Executable::num_partitions() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_NumPartitions_Args, args);
  args.executable = executable_;
  call<&PJRT_Api::PJRT_Executable_NumPartitions>(api_, args);
  return args.num_partitions;
}

std::vector<PJRT_Buffer_Type> Executable::output_types() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_OutputElementTypes_Args, args);
  args.executable = executable_;
  call<&PJRT_Api::PJRT_Executable_OutputElementTypes>(api_, args);
  return {args.output_types, args.output_types + args.num_output_types};
}

std::vector<std::vector<int64_t>> Executable::output_dims() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_OutputDimensions_Args, args);
  args.executable = executable_;
  call<&PJRT_Api::PJRT_Executable_OutputDimensions>(api_, args);
  std::vector<std::vector<int64_t>> result;
  result.reserve(args.num_outputs);
  const int64_t* dims = args.dims;
  for (size_t rank : std::span(args.dim_sizes, args.num_outputs)) {
    result.emplace_back(dims, dims + rank);
    dims += rank;
  }
  return result;
}

std::string Executable::serialize() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_Serialize_Args, args);
  args.executable = executable_;
  call<&PJRT_Api::PJRT_Executable_Serialize>(api_, args);
  // Freed also if the copy throws.
  struct Backing {
    PJRT_Executable_Serialize_Args& args;
    ~Backing() { args.serialized_executable_deleter(args.serialized_executable); }
  } backing{args};
  return {args.serialized_bytes, args.serialized_bytes_size};
}

std::optional<std::string> Executable::fingerprint() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_Fingerprint_Args, args);
  if (!ask<&PJRT_Api::PJRT_Executable_Fingerprint>(api_, executable_, args)) {
    return std::nullopt;
  }
  return std::string(args.executable_fingerprint, args.executable_fingerprint_size);
}

std::optional<int64_t> Executable::generated_code_size() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_SizeOfGeneratedCodeInBytes_Args, args);
  if (!ask<&PJRT_Api::PJRT_Executable_SizeOfGeneratedCodeInBytes>(api_, executable_, args)) {
    return std::nullopt;
  }
  return args.size_in_bytes;
}

std::optional<std::map<std::string, double>> Executable::cost_analysis() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_GetCostAnalysis_Args, args);
  if (!ask<&PJRT_Api::PJRT_Executable_GetCostAnalysis>(api_, executable_, args)) {
    return std::nullopt;
  }
  std::map<std::string, double> result;
  for (const auto& [name, value] : to_attributes(args.properties, args.num_properties)) {
    if (const auto* number = std::get_if<float>(&value)) {
      result.emplace(name, *number);
    } else if (const auto* integer = std::get_if<int64_t>(&value)) {
      result.emplace(name, static_cast<double>(*integer));
    }
  }
  return result;
}

std::optional<CompiledMemoryStats> Executable::memory_stats() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, args);
  if (!ask<&PJRT_Api::PJRT_Executable_GetCompiledMemoryStats>(api_, executable_, args)) {
    return std::nullopt;
  }
  CompiledMemoryStats stats;
  stats.generated_code = args.generated_code_size_in_bytes;
  stats.arguments = args.argument_size_in_bytes;
  stats.outputs = args.output_size_in_bytes;
  stats.alias = args.alias_size_in_bytes;
  stats.temporaries = args.temp_size_in_bytes;
  stats.host_generated_code = args.host_generated_code_size_in_bytes;
  stats.host_arguments = args.host_argument_size_in_bytes;
  stats.host_outputs = args.host_output_size_in_bytes;
  stats.host_alias = args.host_alias_size_in_bytes;
  stats.host_temporaries = args.host_temp_size_in_bytes;
  stats.peak = args.peak_memory_in_bytes;
  return stats;
}

std::optional<OptimizedProgram> Executable::optimized_program() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Program, program);
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_OptimizedProgram_Args, args);
  args.program = &program;
  // The first call tells the size, the second fills in the code.
  if (!ask<&PJRT_Api::PJRT_Executable_OptimizedProgram>(api_, executable_, args)) {
    return std::nullopt;
  }
  OptimizedProgram result;
  result.code.resize(program.code_size);
  program.code = result.code.data();
  call<&PJRT_Api::PJRT_Executable_OptimizedProgram>(api_, args);
  result.format.assign(program.format, program.format_size);
  return result;
}

LoadedExecutable::LoadedExecutable(const PJRT_Api* api, PJRT_LoadedExecutable* loaded) try
    : Executable(api, executable_of(api, loaded)), loaded_(loaded) {
} catch (...) {
  destroy(api, loaded);
  throw;
}

LoadedExecutable& LoadedExecutable::operator=(LoadedExecutable&& other) noexcept {
  if (this != &other) {
    reset_loaded();
    Executable::operator=(std::move(other));
    loaded_ = std::exchange(other.loaded_, nullptr);
  }
  return *this;
}

std::span<PJRT_Device* const> LoadedExecutable::addressable_devices() const {
  TORCH_TPU_PJRT_ARGS(PJRT_LoadedExecutable_AddressableDevices_Args, args);
  args.executable = loaded_;
  call<&PJRT_Api::PJRT_LoadedExecutable_AddressableDevices>(api_, args);
  return {args.addressable_devices, args.num_addressable_devices};
}

void LoadedExecutable::reset_loaded() noexcept {
  if (loaded_ != nullptr) {
    destroy(api_, std::exchange(loaded_, nullptr));
  }
}

}  // namespace torch_tpu::pjrt
