// A client: a plugin's devices, and everything made on them.
#pragma once

#include <pjrt_c_api.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/buffer.h"
#include "pjrt/device.h"
#include "pjrt/event.h"
#include "pjrt/executable.h"
#include "pjrt/named_value.h"
#include "pjrt/plugin.h"
#include "pjrt/topology.h"

namespace torch_tpu::pjrt {

/// What the runtime may do with host memory that a buffer is made from.
enum class HostBufferSemantics {
  /// Copied in the call.
  ImmutableOnlyDuringCall = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall,
  /// Read until the done event is ready.
  ImmutableUntilTransferCompletes = PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes,
  /// On CPU the buffer may *be* the host memory (if it is 64-byte aligned); it is never written
  /// to, and is used until the done event is ready. Elsewhere as the one above.
  ImmutableZeroCopy = PJRT_HostBufferSemantics_kImmutableZeroCopy,
  /// The same, and donation may overwrite it.
  MutableZeroCopy = PJRT_HostBufferSemantics_kMutableZeroCopy,
};

/// Safe to use from any thread. Buffers, executables, events, devices and topologies made from a
/// client hold no reference to it: **they must be gone before it is destroyed**. A client that
/// lives as long as the process is the simplest way.
///
/// Not usable in a child process after fork(): a plugin's threads do not exist there, and
/// compiling hangs.
class Client {
 public:
  /// Takes milliseconds on CPU and seconds on a TPU. Blocks: release the GIL before. Each option
  /// must have the type that the plugin expects: CPU plugins throw a C++ exception of their own
  /// through the C API at a wrong one, which ends the process.
  static std::shared_ptr<Client> create(std::shared_ptr<const Plugin> plugin,
                                        std::vector<NamedValue> options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  PJRT_Client* raw() const { return client_; }
  const PJRT_Api* api() const { return plugin_->api(); }
  const Plugin& plugin() const { return *plugin_; }

  const std::string& platform_name() const { return platform_name_; }
  const std::string& platform_version() const { return platform_version_; }
  int process_index() const;

  /// The devices of this process, in the plugin's order. Valid as long as the client.
  std::span<const Device> addressable_devices() const { return devices_; }

  /// The devices of this client as a target of ahead-of-time compilation.
  Topology topology() const;

  /// Compiles StableHLO: text, or (portable) bytecode. `compile_options` is
  /// CompileOptions::serialize(). Takes 30 ms and more: blocks, release the GIL before.
  LoadedExecutable compile(std::string_view program, std::string_view compile_options) const;

  /// Loads what Executable::serialize() gave. CPU plugins load another plugin's program without
  /// complaint: the caller keeps them apart, by Plugin::fingerprint(). `compile_options` replaces
  /// the options it was compiled with, unless empty. Blocks: release the GIL before.
  LoadedExecutable load(std::string_view serialized, std::string_view compile_options = {}) const;

  /// Makes a buffer from host memory: a dense row-major array, or one with the given strides in
  /// bytes. `done`, if not null, gets the event that tells when the runtime no longer uses `data`.
  /// If it is null and the semantics are not ImmutableOnlyDuringCall, `data` must outlive every
  /// use: the runtime may read it after this call, in each of those modes, even where it copies.
  /// May copy a large array in this call: release the GIL before.
  Buffer buffer_from_host(const void* data, PJRT_Buffer_Type type, std::span<const int64_t> dims,
                          std::span<const int64_t> byte_strides, const Device& device,
                          HostBufferSemantics semantics, Event* done = nullptr) const;

  using OnDelete = void (*)(void* memory, void* arg);

  /// Makes a buffer of device memory that someone else owns; on CPU it must be 64-byte aligned.
  /// An execution that takes the buffer as donated may write to it (CPU plugins copy instead).
  /// `on_delete` (may be null) runs when the buffer is destroyed, deleted or donated and no running
  /// program reads the memory any more: on any thread, or in the call that destroys the buffer. It
  /// must not take the GIL, and not throw.
  Buffer view_of_device_memory(void* memory, PJRT_Buffer_Type type, std::span<const int64_t> dims,
                               const Device& device, OnDelete on_delete, void* arg) const;

  /// The same with a callable, at the price of an allocation. An exception that leaves it is
  /// dropped.
  Buffer view_of_device_memory(void* memory, PJRT_Buffer_Type type, std::span<const int64_t> dims,
                               const Device& device, std::function<void()> on_delete) const;

 private:
  Client(std::shared_ptr<const Plugin> plugin, PJRT_Client* client);

  std::shared_ptr<const Plugin> plugin_;
  PJRT_Client* client_;
  std::string platform_name_;
  std::string platform_version_;
  std::vector<Device> devices_;
};

}  // namespace torch_tpu::pjrt
