#include "pjrt/client.h"

#include <utility>

#include "pjrt/api_call.h"
#include "pjrt/program.h"

namespace torch_tpu::pjrt {
namespace {

std::string platform_name_of(const PJRT_Api* api, PJRT_Client* client) {
  TORCH_TPU_PJRT_ARGS(PJRT_Client_PlatformName_Args, args);
  args.client = client;
  call<&PJRT_Api::PJRT_Client_PlatformName>(api, args);
  return {args.platform_name, args.platform_name_size};
}

std::string platform_version_of(const PJRT_Api* api, PJRT_Client* client) {
  TORCH_TPU_PJRT_ARGS(PJRT_Client_PlatformVersion_Args, args);
  args.client = client;
  call<&PJRT_Api::PJRT_Client_PlatformVersion>(api, args);
  return {args.platform_version, args.platform_version_size};
}

std::vector<Device> devices_of(const PJRT_Api* api, PJRT_Client* client) {
  TORCH_TPU_PJRT_ARGS(PJRT_Client_AddressableDevices_Args, args);
  args.client = client;
  call<&PJRT_Api::PJRT_Client_AddressableDevices>(api, args);
  std::vector<Device> devices;
  devices.reserve(args.num_addressable_devices);
  for (PJRT_Device* device : std::span(args.addressable_devices, args.num_addressable_devices)) {
    devices.emplace_back(api, device);
  }
  return devices;
}

void destroy(const PJRT_Api* api, PJRT_Client* client) noexcept {
  TORCH_TPU_PJRT_ARGS(PJRT_Client_Destroy_Args, args);
  args.client = client;
  call_destroy<&PJRT_Api::PJRT_Client_Destroy>(api, args);
}

void ignore_delete(void* /*memory*/, void* /*arg*/) {}

void run_on_delete(void* /*memory*/, void* arg) {
  const std::unique_ptr<std::function<void()>> on_delete(static_cast<std::function<void()>*>(arg));
  // The caller is C code of the plugin: nothing may be thrown through it.
  try {
    (*on_delete)();
  } catch (...) {
  }
}

}  // namespace

std::shared_ptr<Client> Client::create(std::shared_ptr<const Plugin> plugin,
                                       std::vector<NamedValue> options) {
  const std::vector<PJRT_NamedValue> c_options = to_c(options);
  TORCH_TPU_PJRT_ARGS(PJRT_Client_Create_Args, args);
  args.create_options = c_options.data();
  args.num_options = c_options.size();
  const PJRT_Api* api = plugin->api();
  call<&PJRT_Api::PJRT_Client_Create>(api, args);
  try {
    return std::shared_ptr<Client>(new Client(std::move(plugin), args.client));
  } catch (...) {
    destroy(api, args.client);
    throw;
  }
}

Client::Client(std::shared_ptr<const Plugin> plugin, PJRT_Client* client)
    : plugin_(std::move(plugin)),
      client_(client),
      platform_name_(platform_name_of(api(), client)),
      platform_version_(platform_version_of(api(), client)),
      devices_(devices_of(api(), client)) {}

Client::~Client() { destroy(api(), client_); }

int Client::process_index() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Client_ProcessIndex_Args, args);
  args.client = client_;
  call<&PJRT_Api::PJRT_Client_ProcessIndex>(api(), args);
  return args.process_index;
}

Topology Client::topology() const {
  TORCH_TPU_PJRT_ARGS(PJRT_Client_TopologyDescription_Args, args);
  args.client = client_;
  call<&PJRT_Api::PJRT_Client_TopologyDescription>(api(), args);
  return Topology::borrow(plugin_, args.topology);
}

LoadedExecutable Client::compile(std::string_view program, std::string_view compile_options) const {
  const PJRT_Program c_program = mlir_program(program);
  TORCH_TPU_PJRT_ARGS(PJRT_Client_Compile_Args, args);
  args.client = client_;
  args.program = &c_program;
  args.compile_options = compile_options.data();
  args.compile_options_size = compile_options.size();
  call<&PJRT_Api::PJRT_Client_Compile>(api(), args);
  return {api(), args.executable};
}

LoadedExecutable Client::load(std::string_view serialized, std::string_view compile_options) const {
  TORCH_TPU_PJRT_ARGS(PJRT_Executable_DeserializeAndLoad_Args, args);
  args.client = client_;
  args.serialized_executable = serialized.data();
  args.serialized_executable_size = serialized.size();
  if (!compile_options.empty()) {
    args.overridden_serialized_compile_options = compile_options.data();
    args.overridden_serialized_compile_options_size = compile_options.size();
  }
  call<&PJRT_Api::PJRT_Executable_DeserializeAndLoad>(api(), args);
  return {api(), args.loaded_executable};
}

Buffer Client::buffer_from_host(const void* data, PJRT_Buffer_Type type,
                                std::span<const int64_t> dims,
                                std::span<const int64_t> byte_strides, const Device& device,
                                HostBufferSemantics semantics, Event* done) const {
  TORCH_TPU_PJRT_ARGS(PJRT_Client_BufferFromHostBuffer_Args, args);
  args.client = client_;
  args.data = data;
  args.type = type;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.byte_strides = byte_strides.data();
  args.num_byte_strides = byte_strides.size();
  args.host_buffer_semantics = static_cast<PJRT_HostBufferSemantics>(semantics);
  args.device = device.raw();
  call<&PJRT_Api::PJRT_Client_BufferFromHostBuffer>(api(), args);
  Event finished(api(), args.done_with_host_buffer);
  if (done != nullptr) {
    *done = std::move(finished);
  }
  return {api(), args.buffer};
}

Buffer Client::view_of_device_memory(void* memory, PJRT_Buffer_Type type,
                                     std::span<const int64_t> dims, const Device& device,
                                     OnDelete on_delete, void* arg) const {
  TORCH_TPU_PJRT_ARGS(PJRT_Client_CreateViewOfDeviceBuffer_Args, args);
  args.client = client_;
  args.device_buffer_ptr = memory;
  args.dims = dims.data();
  args.num_dims = dims.size();
  args.element_type = type;
  args.device = device.raw();
  // The header calls the callback optional, but CPU plugins abort without one.
  args.on_delete_callback = on_delete != nullptr ? on_delete : ignore_delete;
  args.on_delete_callback_arg = arg;
  call<&PJRT_Api::PJRT_Client_CreateViewOfDeviceBuffer>(api(), args);
  return {api(), args.buffer};
}

Buffer Client::view_of_device_memory(void* memory, PJRT_Buffer_Type type,
                                     std::span<const int64_t> dims, const Device& device,
                                     std::function<void()> on_delete) const {
  if (!on_delete) {
    return view_of_device_memory(memory, type, dims, device, nullptr, nullptr);
  }
  auto callable = std::make_unique<std::function<void()>>(std::move(on_delete));
  Buffer buffer = view_of_device_memory(memory, type, dims, device, run_on_delete, callable.get());
  // Only now it belongs to the plugin: had the call failed, it would be ours.
  static_cast<void>(callable.release());
  return buffer;
}

}  // namespace torch_tpu::pjrt
