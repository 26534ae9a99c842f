// Ahead-of-time compilation for a TPU that is not there. Needs libtpu: runs only if the environment
// variable TORCH_TPU_TEST_LIBTPU gives its path.

#include <cstdlib>

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

constexpr std::string_view matmul_program = R"(
module @matmul {
  func.func public @main(%a: tensor<1024x1024xbf16>, %b: tensor<1024x1024xbf16>)
      -> tensor<1024x1024xbf16> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
       : (tensor<1024x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<1024x1024xbf16>
    return %0 : tensor<1024x1024xbf16>
  }
})";

class Aot : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("TORCH_TPU_TEST_LIBTPU");
    if (path == nullptr) {
      GTEST_SKIP() << "TORCH_TPU_TEST_LIBTPU is not set";
    }
    // Without these it asks a metadata server for minutes, or refuses a second process.
    ::setenv("TPU_SKIP_MDS_QUERY", "1", 1);
    ::setenv("TPU_ACCELERATOR_TYPE", "v5litepod-4", 1);
    ::setenv("TPU_WORKER_HOSTNAMES", "localhost", 1);
    ::setenv("TPU_WORKER_ID", "0", 1);
    ::setenv("ALLOW_MULTIPLE_LIBTPU_LOAD", "1", 1);
    libtpu_ = Plugin::load(path);
  }

  std::shared_ptr<const Plugin> libtpu_;
};

TEST_F(Aot, CompilesForATopology) {
  const Topology topology = Topology::create(libtpu_, "v6e:2x2");
  EXPECT_EQ(topology.platform_name(), "tpu");
  EXPECT_EQ(topology.devices().size(), 4u);
  EXPECT_NE(topology.devices()[0].kind(), "");
  EXPECT_GT(topology.attributes().size(), 0u);
  const Executable program = topology.compile(matmul_program, testing::portable());
  EXPECT_EQ(program.num_outputs(), 1u);
  const auto costs = program.cost_analysis();
  ASSERT_TRUE(costs);
  EXPECT_GT(costs->at("flops"), 2e9);
  const auto memory = program.memory_stats();
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->arguments, 2 * 2 * 1024 * 1024);
  EXPECT_TRUE(program.optimized_program());
  EXPECT_FALSE(program.serialize().empty());
}

TEST_F(Aot, AnUnknownTopologyIsAnError) {
  testing::expect_error([&] { Topology::create(libtpu_, "no such topology"); });
}

TEST_F(Aot, ATooLargeProgramIsAnError) {
  const Topology topology = Topology::create(libtpu_, "v6e:2x2");
  const Error error = testing::expect_error([&] {
    topology.compile(R"(
module @large {
  func.func public @main(%a: tensor<200000x200000xf32>) -> tensor<200000x200000xf32> {
    %0 = stablehlo.tanh %a : tensor<200000x200000xf32>
    return %0 : tensor<200000x200000xf32>
  }
})",
                     testing::portable());
  });
  EXPECT_EQ(error.code(), Code::ResourceExhausted) << error.what();
}

}  // namespace
}  // namespace torch_tpu::pjrt
