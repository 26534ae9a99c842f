#include "pjrt/topology.h"

#include <span>
#include <utility>

#include "pjrt/api_call.h"
#include "pjrt/program.h"

namespace torch_tpu::pjrt {

Topology Topology::create(std::shared_ptr<const Plugin> plugin, std::string_view name,
                          std::vector<NamedValue> options) {
  const std::vector<PJRT_NamedValue> c_options = to_c(options);
  TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_Create_Args, args);
  args.topology_name = name.data();
  args.topology_name_size = name.size();
  args.create_options = c_options.data();
  args.num_options = c_options.size();
  call<&PJRT_Api::PJRT_TopologyDescription_Create>(plugin->api(), args);
  return {std::move(plugin), args.topology, /*owned=*/true};
}

Topology Topology::borrow(std::shared_ptr<const Plugin> plugin,
                          PJRT_TopologyDescription* topology) {
  return {std::move(plugin), topology, /*owned=*/false};
}

Topology::Topology(std::shared_ptr<const Plugin> plugin, PJRT_TopologyDescription* topology,
                   bool owned)
    : plugin_(std::move(plugin)), topology_(topology), owned_(owned) {}

Topology::~Topology() { reset(); }

Topology::Topology(Topology&& other) noexcept
    : plugin_(std::move(other.plugin_)),
      topology_(std::exchange(other.topology_, nullptr)),
      owned_(other.owned_) {}

Topology& Topology::operator=(Topology&& other) noexcept {
  if (this != &other) {
    reset();
    plugin_ = std::move(other.plugin_);
    topology_ = std::exchange(other.topology_, nullptr);
    owned_ = other.owned_;
  }
  return *this;
}

void Topology::reset() noexcept {
  if (topology_ != nullptr && owned_) {
    TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_Destroy_Args, args);
    args.topology = topology_;
    call_destroy<&PJRT_Api::PJRT_TopologyDescription_Destroy>(plugin_->api(), args);
  }
  topology_ = nullptr;
}

std::string Topology::platform_name() const {
  TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_PlatformName_Args, args);
  args.topology = topology_;
  call<&PJRT_Api::PJRT_TopologyDescription_PlatformName>(plugin_->api(), args);
  return {args.platform_name, args.platform_name_size};
}

std::string Topology::platform_version() const {
  TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_PlatformVersion_Args, args);
  args.topology = topology_;
  call<&PJRT_Api::PJRT_TopologyDescription_PlatformVersion>(plugin_->api(), args);
  return {args.platform_version, args.platform_version_size};
}

Attributes Topology::attributes() const {
  TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_Attributes_Args, args);
  args.topology = topology_;
  if (!call_if_implemented<&PJRT_Api::PJRT_TopologyDescription_Attributes>(plugin_->api(), args)) {
    return {};
  }
  return to_attributes(args.attributes, args.num_attributes);
}

std::vector<DeviceDescription> Topology::devices() const {
  TORCH_TPU_PJRT_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions_Args, args);
  args.topology = topology_;
  call<&PJRT_Api::PJRT_TopologyDescription_GetDeviceDescriptions>(plugin_->api(), args);
  std::vector<DeviceDescription> devices;
  devices.reserve(args.num_descriptions);
  for (PJRT_DeviceDescription* device : std::span(args.descriptions, args.num_descriptions)) {
    devices.emplace_back(plugin_->api(), device);
  }
  return devices;
}

Executable Topology::compile(std::string_view program, std::string_view compile_options) const {
  const PJRT_Program c_program = mlir_program(program);
  TORCH_TPU_PJRT_ARGS(PJRT_Compile_Args, args);
  args.topology = topology_;
  args.program = &c_program;
  args.compile_options = compile_options.data();
  args.compile_options_size = compile_options.size();
  call<&PJRT_Api::PJRT_Compile>(plugin_->api(), args);
  return {plugin_->api(), args.executable};
}

}  // namespace torch_tpu::pjrt
