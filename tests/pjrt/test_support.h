// What the tests of this folder share: the plugin under test, a client, and small programs.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/compile_options.h"
#include "pjrt/dtype.h"

namespace torch_tpu::pjrt::testing {

/// Path of the plugin under test: --plugin=PATH, or the environment's TORCH_TPU_TEST_PLUGIN.
const std::string& plugin_path();
void set_plugin_path(std::string path);

std::shared_ptr<const Plugin> plugin();

/// A client with four devices; it lives until the process ends.
const Client& client();
const Device& device(size_t index = 0);

/// Options of a portable program, which is the default.
std::string portable();

LoadedExecutable compile(std::string_view program);

/// a + b, f32[4].
inline constexpr std::string_view add_program = R"(
module @add {
  func.func public @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

/// A program that takes the device some hundredths of a second and so runs asynchronously: four
/// 1024x1024 products of %a (use zeros), plus the word %s.
std::string slow_program();

template <class T>
constexpr PJRT_Buffer_Type type_of();
template <>
constexpr PJRT_Buffer_Type type_of<float>() {
  return PJRT_Buffer_Type_F32;
}
template <>
constexpr PJRT_Buffer_Type type_of<int32_t>() {
  return PJRT_Buffer_Type_S32;
}

/// A buffer with the given values, copied.
template <class T>
Buffer upload(const Client& to, const std::vector<T>& values, std::vector<int64_t> dims,
              const Device& on) {
  return to.buffer_from_host(values.data(), type_of<T>(), dims, {}, on,
                             HostBufferSemantics::ImmutableOnlyDuringCall);
}
template <class T>
Buffer upload(const std::vector<T>& values, std::vector<int64_t> dims) {
  return upload(client(), values, std::move(dims), device());
}

/// The values of a buffer.
template <class T>
std::vector<T> download(const Buffer& buffer) {
  std::vector<T> values(host_byte_size(type_of<T>(), buffer.dims()) / sizeof(T));
  buffer.to_host(values.data(), values.size() * sizeof(T)).await();
  return values;
}

/// Runs a program with one output.
Buffer run(const LoadedExecutable& program, std::vector<PJRT_Buffer*> args,
           const Device* on = nullptr, std::span<const int64_t> non_donatable = {});

/// Memory as PJRT wants it for views and for zero copy.
struct alignas(64) Slot {
  std::array<float, 16> values{};
};

/// A folder that goes away with its contents.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Calls `action`, expecting an Error, and returns it.
template <class Action>
Error expect_error(Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_FALSE(std::string(error.what()).empty());
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error;
  }
  ADD_FAILURE() << "no Error was thrown";
  return {Code::Ok, ""};
}

}  // namespace torch_tpu::pjrt::testing
