#include "test_support.h"

#include <cstdlib>
#include <system_error>
#include <utility>

namespace torch_tpu::pjrt::testing {
namespace {

std::string& stored_path() {
  static std::string path;
  return path;
}

}  // namespace

const std::string& plugin_path() { return stored_path(); }

void set_plugin_path(std::string path) { stored_path() = std::move(path); }

std::shared_ptr<const Plugin> plugin() { return Plugin::load(plugin_path()); }

const Client& client() {
  // Never destroyed: buffers in the statics of a test may outlive it otherwise.
  static const auto& instance =
      *new std::shared_ptr<Client>(Client::create(plugin(), {{"cpu_device_count", int64_t{4}}}));
  return *instance;
}

const Device& device(size_t index) { return client().addressable_devices()[index]; }

std::string portable() { return CompileOptions{}.serialize(); }

LoadedExecutable compile(std::string_view program) { return client().compile(program, portable()); }

std::string slow_program() {
  std::string text = R"(
module @slow {
  func.func public @main(%a: tensor<1024x1024xf32>, %s: tensor<1xf32>) -> tensor<1xf32> {
    %p0 = stablehlo.add %a, %a : tensor<1024x1024xf32>)";
  constexpr int products = 4;
  for (int i = 0; i < products; ++i) {
    const std::string in = "%p" + std::to_string(i);
    text += "\n    %p" + std::to_string(i + 1) + " = stablehlo.dot_general " + in + ", " + in +
            ", contracting_dims = [1] x [0] : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> "
            "tensor<1024x1024xf32>";
  }
  text += R"(
    %x = stablehlo.slice %p4 [0:1, 0:1] : (tensor<1024x1024xf32>) -> tensor<1x1xf32>
    %y = stablehlo.reshape %x : (tensor<1x1xf32>) -> tensor<1xf32>
    %z = stablehlo.add %y, %s : tensor<1xf32>
    return %z : tensor<1xf32>
  }
})";
  return text;
}

Buffer run(const LoadedExecutable& program, std::vector<PJRT_Buffer*> args, const Device* on,
           std::span<const int64_t> non_donatable) {
  EXPECT_EQ(program.num_outputs(), 1u);
  PJRT_Buffer* out = nullptr;
  program.execute(args.data(), args.size(), &out, on != nullptr ? on->raw() : device().raw(),
                  non_donatable);
  return {client().api(), out};
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "pjrt_test_XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw std::system_error(errno, std::generic_category(), "mkdtemp");
  }
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace torch_tpu::pjrt::testing
