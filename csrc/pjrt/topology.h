// Ahead-of-time targets: devices that need not be there.
#pragma once

#include <pjrt_c_api.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/device.h"
#include "pjrt/executable.h"
#include "pjrt/named_value.h"
#include "pjrt/plugin.h"

namespace torch_tpu::pjrt {

/// Move-only. One that came from a client is valid as long as the client.
class Topology {
 public:
  /// By name, e.g. "v6e:2x2" for libtpu. Throws Error (Code::Unimplemented for a plugin that has
  /// no named topologies, such as the CPU ones). Blocks: release the GIL before.
  static Topology create(std::shared_ptr<const Plugin> plugin, std::string_view name,
                         std::vector<NamedValue> options = {});

  /// A topology that the caller does not own.
  static Topology borrow(std::shared_ptr<const Plugin> plugin, PJRT_TopologyDescription* topology);

  ~Topology();
  Topology(Topology&& other) noexcept;
  Topology& operator=(Topology&& other) noexcept;

  PJRT_TopologyDescription* raw() const { return topology_; }

  std::string platform_name() const;
  std::string platform_version() const;

  /// E.g. `device_memory_bytes_limit`. Empty if the plugin gives none.
  Attributes attributes() const;
  std::vector<DeviceDescription> devices() const;

  /// Compiles without a client. The result can be analysed and serialized; to run it, a client of
  /// such devices loads it. Takes up to seconds: blocks, release the GIL before.
  Executable compile(std::string_view program, std::string_view compile_options) const;

 private:
  Topology(std::shared_ptr<const Plugin> plugin, PJRT_TopologyDescription* topology, bool owned);
  void reset() noexcept;

  std::shared_ptr<const Plugin> plugin_;
  PJRT_TopologyDescription* topology_;
  bool owned_;
};

}  // namespace torch_tpu::pjrt
