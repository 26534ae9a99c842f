// Plugins of other versions, played by copies of the fault plugin (a copy is another library, with
// its own table).

#include <cstddef>
#include <cstdlib>

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

class OldPlugin : public ::testing::Test {
 protected:
  void SetUp() override { ::setenv("FAULT_TARGET", testing::plugin_path().c_str(), 1); }
  void TearDown() override {
    ::unsetenv("FAULT_API_MAJOR");
    ::unsetenv("FAULT_API_SIZE");
  }

  std::shared_ptr<const Plugin> load_copy() {
    const auto copy = folder_.path() / "plugin.so";
    std::filesystem::copy_file(FAULT_PLUGIN, copy);
    return Plugin::load(copy.string());
  }

  std::string load_failure() {
    try {
      load_copy();
    } catch (const PluginError& error) {
      return error.what();
    }
    ADD_FAILURE() << "the plugin was loaded";
    return "";
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(OldPlugin, AnotherMajorVersionIsRefused) {
  ::setenv("FAULT_API_MAJOR", "7", 1);
  const std::string message = load_failure();
  EXPECT_NE(message.find("PJRT C API 7."), std::string::npos) << message;
  EXPECT_NE(message.find("major version 0"), std::string::npos) << message;
}

TEST_F(OldPlugin, OneWithoutTheBasicsIsRefused) {
  ::setenv("FAULT_API_SIZE", std::to_string(offsetof(PJRT_Api, PJRT_Compile)).c_str(), 1);
  const std::string message = load_failure();
  EXPECT_NE(message.find("too old"), std::string::npos) << message;
}

TEST_F(OldPlugin, OneWithoutTargetIsRefused) {
  ::setenv("FAULT_TARGET", "/no/such/plugin.so", 1);
  const std::string message = load_failure();
  EXPECT_NE(message.find("gives no API"), std::string::npos) << message;
}

TEST_F(OldPlugin, MissingFunctionsAreMissingFeatures) {
  // The table ends after the functions that are required.
  constexpr size_t size = offsetof(PJRT_Api, PJRT_Buffer_CopyToMemory);
  ::setenv("FAULT_API_SIZE", std::to_string(size).c_str(), 1);
  const auto plugin = load_copy();
  EXPECT_TRUE(plugin->has(&PJRT_Api::PJRT_Compile));
  EXPECT_FALSE(plugin->has(&PJRT_Api::PJRT_Executable_Fingerprint));
  const auto client = Client::create(plugin, {{"cpu_device_count", int64_t{1}}});
  {
    const LoadedExecutable program = client->compile(testing::add_program, testing::portable());
    EXPECT_EQ(program.fingerprint(), std::nullopt);
    EXPECT_EQ(program.memory_stats().has_value(), false);
    EXPECT_EQ(program.output_dims().size(), 1u);
  }
  EXPECT_EQ(expect_error([&] { client->topology(); }).code(), Code::Unimplemented);
  testing::Slot slot;
  const std::array<int64_t, 1> dims = {4};
  const auto view = [&] {
    client->view_of_device_memory(slot.values.data(), PJRT_Buffer_Type_F32, dims,
                                  client->addressable_devices()[0], nullptr, nullptr);
  };
  EXPECT_EQ(expect_error(view).code(), Code::Unimplemented);
}

}  // namespace
}  // namespace torch_tpu::pjrt
