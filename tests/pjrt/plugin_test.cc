// Loading plugins, and refusing what is not one.

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <set>
#include <thread>

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::plugin;
using testing::plugin_path;
using testing::TemporaryFolder;

std::string load_failure(const std::string& path) {
  try {
    Plugin::load(path);
  } catch (const PluginError& error) {
    return error.what();
  }
  ADD_FAILURE() << "'" << path << "' was loaded";
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(Plugin, LoadsOnce) {
  const auto first = plugin();
  EXPECT_EQ(first, plugin());
  EXPECT_NE(first->api(), nullptr);
  EXPECT_TRUE(std::filesystem::path(first->path()).is_absolute());
}

TEST(Plugin, ASymbolicLinkIsTheSamePlugin) {
  const TemporaryFolder folder;
  const auto link = folder.path() / "link.so";
  std::filesystem::create_symlink(std::filesystem::canonical(plugin_path()), link);
  EXPECT_EQ(Plugin::load(link.string()), plugin());
}

TEST(Plugin, LoadsFromSeveralThreads) {
  std::array<std::shared_ptr<const Plugin>, 4> loaded;
  std::vector<std::thread> threads;
  for (auto& slot : loaded) {
    threads.emplace_back([&slot] { slot = plugin(); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(std::set(loaded.begin(), loaded.end()).size(), 1u);
}

TEST(Plugin, ApiVersionHasOurMajor) {
  EXPECT_EQ(plugin()->api_version().major, PJRT_API_MAJOR);
  EXPECT_GT(plugin()->api_version().minor, 0);
}

TEST(Plugin, AttributesNameTheStablehloVersions) {
  const auto& attributes = plugin()->attributes();
  ASSERT_TRUE(attributes.contains("stablehlo_current_version"));
  ASSERT_TRUE(attributes.contains("stablehlo_minimum_version"));
  // "1.13.3", from a list of three numbers.
  const std::string& version = attributes.at("stablehlo_current_version");
  EXPECT_EQ(std::count(version.begin(), version.end(), '.'), 2) << version;
}

TEST(Plugin, HasWhatItsTableHas) {
  EXPECT_TRUE(plugin()->has(&PJRT_Api::PJRT_Client_Create));
  EXPECT_TRUE(plugin()->has(&PJRT_Api::PJRT_LoadedExecutable_Execute));
}

TEST(Plugin, HasLooksAtTheTableSize) {
  PJRT_Api api = *plugin()->api();
  ASSERT_TRUE(has_function(&api, &PJRT_Api::PJRT_Compile));
  api.struct_size = offsetof(PJRT_Api, PJRT_Compile);
  EXPECT_FALSE(has_function(&api, &PJRT_Api::PJRT_Compile));
  EXPECT_TRUE(has_function(&api, &PJRT_Api::PJRT_Client_Create));
  api.PJRT_Client_Create = nullptr;
  EXPECT_FALSE(has_function(&api, &PJRT_Api::PJRT_Client_Create));
}

TEST(Plugin, FindsExtensions) {
  // Those that the header knows: the plugin may be newer and have others.
  for (int number = 0; number < PJRT_Extension_Type_Unknown; ++number) {
    const auto type = static_cast<PJRT_Extension_Type>(number);
    const auto* extension = plugin()->find_extension<PJRT_Extension_Base>(type);
    if (extension != nullptr) {
      EXPECT_EQ(extension->type, type);
    }
  }
  EXPECT_EQ(plugin()->find_extension<PJRT_Extension_Base>(PJRT_Extension_Type_Unknown), nullptr);
}

TEST(Plugin, FingerprintIsStable) {
  const std::string& fingerprint = plugin()->fingerprint();
  EXPECT_TRUE(fingerprint.starts_with("hash:") || fingerprint.starts_with("build-id:"));
  EXPECT_GT(fingerprint.size(), 20u);
  EXPECT_EQ(fingerprint, plugin()->fingerprint());
}

TEST(Plugin, RefusesAMissingFile) {
  const std::string message = load_failure("/no/such/plugin.so");
  EXPECT_TRUE(contains(message, "/no/such/plugin.so")) << message;
  EXPECT_TRUE(contains(message, "does not exist")) << message;
  EXPECT_TRUE(contains(message, "libtpu.so")) << message;
  EXPECT_TRUE(contains(load_failure(""), "does not exist"));
}

TEST(Plugin, RefusesAFolder) { EXPECT_TRUE(contains(load_failure("/tmp"), "not a file")); }

TEST(Plugin, RefusesAFileThatIsNoLibrary) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "text.so";
  std::ofstream(path) << "not a library";
  EXPECT_TRUE(contains(load_failure(path.string()), "cannot be loaded"));
}

TEST(Plugin, RefusesALibraryThatIsNoPlugin) {
  void* libm = ::dlopen("libm.so.6", RTLD_NOW);
  ASSERT_NE(libm, nullptr);
  Dl_info info;
  ASSERT_NE(::dladdr(::dlsym(libm, "cbrt"), &info), 0);
  const std::string message = load_failure(info.dli_fname);
  EXPECT_TRUE(contains(message, "GetPjrtApi")) << message;
}

TEST(Plugin, AFailedLoadLeavesTheProcessUsable) {
  load_failure("/no/such/plugin.so");
  EXPECT_NE(plugin(), nullptr);
}

}  // namespace
}  // namespace torch_tpu::pjrt
