// Compiled programs: what they say of themselves, and the way to disk and back.

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::client;
using testing::download;
using testing::expect_error;
using testing::run;
using testing::upload;
using Values = std::vector<float>;

TEST(Executable, DescribesItsOutputs) {
  const LoadedExecutable program = testing::compile(R"(
module @described {
  func.func public @main(%a: tensor<2x3xbf16>) -> (tensor<2x3xbf16>, tensor<i32>) {
    %0 = stablehlo.add %a, %a : tensor<2x3xbf16>
    %1 = stablehlo.constant dense<3> : tensor<i32>
    return %0, %1 : tensor<2x3xbf16>, tensor<i32>
  }
})");
  EXPECT_EQ(program.num_outputs(), 2u);
  EXPECT_EQ(program.output_types(),
            (std::vector<PJRT_Buffer_Type>{PJRT_Buffer_Type_BF16, PJRT_Buffer_Type_S32}));
  EXPECT_EQ(program.output_dims(), (std::vector<std::vector<int64_t>>{{2, 3}, {}}));
  EXPECT_NE(program.name().find("described"), std::string::npos) << program.name();
  EXPECT_EQ(program.num_replicas(), 1u);
  EXPECT_EQ(program.num_partitions(), 1u);
}

TEST(Executable, OptionalAnalyses) {
  const LoadedExecutable program = testing::compile(testing::slow_program());
  if (const auto costs = program.cost_analysis()) {
    ASSERT_TRUE(costs->contains("flops"));
    // Four products of 1024^3.
    EXPECT_GT(costs->at("flops"), 4.0 * 2 * 1024 * 1024 * 1024 * 0.9);
  }
  if (const auto memory = program.memory_stats()) {
    EXPECT_EQ(memory->arguments, 1024 * 1024 * 4 + 4);
    EXPECT_EQ(memory->outputs, 4);
    EXPECT_GT(memory->temporaries, 0);
  }
  if (const auto optimized = program.optimized_program()) {
    EXPECT_FALSE(optimized->code.empty());
    EXPECT_TRUE(optimized->format.starts_with("hlo") || optimized->format == "mlir")
        << optimized->format;
  }
  program.generated_code_size();
}

TEST(Executable, FingerprintFollowsTheProgram) {
  const LoadedExecutable first = testing::compile(testing::add_program);
  const LoadedExecutable again = testing::compile(testing::add_program);
  if (first.fingerprint()) {
    EXPECT_EQ(first.fingerprint(), again.fingerprint());
  }
}

TEST(Executable, SurvivesSerialization) {
  const std::string bytes = testing::compile(testing::add_program).serialize();
  EXPECT_FALSE(bytes.empty());
  const LoadedExecutable loaded = client().load(bytes);
  EXPECT_EQ(loaded.num_outputs(), 1u);
  const Buffer a = upload<float>({1, 2, 3, 4}, {4});
  EXPECT_EQ(download<float>(run(loaded, {a.raw(), a.raw()})), (Values{2, 4, 6, 8}));
}

TEST(Executable, LoadsWithOtherOptions) {
  const std::string bytes = testing::compile(testing::add_program).serialize();
  const LoadedExecutable loaded = client().load(bytes, testing::portable());
  const Buffer a = upload<float>({1, 2, 3, 4}, {4});
  EXPECT_EQ(download<float>(run(loaded, {a.raw(), a.raw()})), (Values{2, 4, 6, 8}));
}

TEST(Executable, DamagedBytesAreAnError) {
  std::string bytes = testing::compile(testing::add_program).serialize();
  expect_error([] { client().load("not an executable"); });
  expect_error([&] { client().load(std::string_view(bytes).substr(0, bytes.size() / 2)); });
  expect_error([] { client().load(""); });
  EXPECT_TRUE(client().load(bytes));
}

TEST(Executable, AProgramThatDoesNotParseIsAnError) {
  const Error error = expect_error([] { testing::compile("this is not MLIR"); });
  EXPECT_FALSE(error.details().empty());
  expect_error([] { testing::compile(""); });
  expect_error([] {
    testing::compile(R"(
module @bad {
  func.func public @main(%a: tensor<4xf32>) -> tensor<5xf32> {
    return %a : tensor<4xf32>
  }
})");
  });
  EXPECT_TRUE(testing::compile(testing::add_program));
}

TEST(Executable, DamagedOptionsAreAnError) {
  expect_error([] { client().compile(testing::add_program, "\xff\xff\xff"); });
}

TEST(Executable, MovesItsOwnership) {
  LoadedExecutable first = testing::compile(testing::add_program);
  LoadedExecutable second = std::move(first);
  EXPECT_FALSE(first);
  first = std::move(second);
  EXPECT_FALSE(second);
  ASSERT_TRUE(first);
  const Buffer a = upload<float>({1, 2, 3, 4}, {4});
  EXPECT_EQ(download<float>(run(first, {a.raw(), a.raw()})), (Values{2, 4, 6, 8}));
}

TEST(Executable, MayBeDroppedWhileItRuns) {
  LoadedExecutable slow = testing::compile(testing::slow_program());
  const Buffer zeros = upload<float>(Values(1024 * 1024), {1024, 1024});
  const Buffer word = upload<float>({3}, {1});
  const Buffer result = run(slow, {zeros.raw(), word.raw()});
  slow = LoadedExecutable();
  EXPECT_EQ(download<float>(result), Values{3});
}

}  // namespace
}  // namespace torch_tpu::pjrt
