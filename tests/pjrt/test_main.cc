// Entry point: takes the plugin's path from --plugin=PATH or TORCH_TPU_TEST_PLUGIN.

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "test_support.h"

int main(int argc, char** argv) {
  // XLA logs at length; a failing test prints what it needs.
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "3", /*overwrite=*/0);
  ::testing::InitGoogleTest(&argc, argv);
  std::string path;
  if (const char* from_environment = std::getenv("TORCH_TPU_TEST_PLUGIN")) {
    path = from_environment;
  }
  constexpr std::string_view option = "--plugin=";
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with(option)) {
      path = argv[i] + option.size();
    }
  }
  if (path.empty()) {
    std::fprintf(stderr, "Give the plugin to test: --plugin=PATH, or TORCH_TPU_TEST_PLUGIN.\n");
    return 2;
  }
  torch_tpu::pjrt::testing::set_plugin_path(path);
  return RUN_ALL_TESTS();
}
