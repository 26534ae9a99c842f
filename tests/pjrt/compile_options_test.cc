// The hand-written protobuf of the compile options: its bytes, and that the compiler obeys them.

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::client;
using testing::device;
using testing::download;
using testing::expect_error;
using testing::TemporaryFolder;
using testing::upload;

LoadedExecutable compile_with(CompileOptions options) {
  return client().compile(testing::add_program, options.serialize());
}

CompileOptions with_override(std::string name, CompileOptions::Override value) {
  CompileOptions options;
  options.overrides.emplace(std::move(name), std::move(value));
  return options;
}

TEST(CompileOptions, Bytes) {
  // Field 3: {4: 1, 5: 1}; field 4: true.
  EXPECT_EQ(CompileOptions{}.serialize(), std::string("\x1a\x04\x20\x01\x28\x01\x20\x01", 8));
}

TEST(CompileOptions, BytesOfOverrides) {
  const std::string prefix = CompileOptions{}.serialize();
  const auto entry = [&](CompileOptions::Override value) {
    return with_override("n", std::move(value)).serialize().substr(prefix.size());
  };
  EXPECT_EQ(entry(true), std::string("\x3a\x07\x0a\x01n\x12\x02\x10\x01", 9));
  EXPECT_EQ(entry(int64_t{300}), std::string("\x3a\x08\x0a\x01n\x12\x03\x18\xac\x02", 10));
  EXPECT_EQ(entry(std::string("v")), std::string("\x3a\x08\x0a\x01n\x12\x03\x0a\x01v", 10));
  EXPECT_EQ(entry(1.0),
            std::string("\x3a\x0e\x0a\x01n\x12\x09\x21\x00\x00\x00\x00\x00\x00\xf0\x3f", 16));
  // A negative number takes ten bytes.
  EXPECT_EQ(entry(int64_t{-1}).size(), 18u);
}

TEST(CompileOptions, ContradictionsAreRefused) {
  CompileOptions options;
  options.num_replicas = 2;
  EXPECT_THROW(options.serialize(), std::invalid_argument);
  options.portable = false;
  EXPECT_NO_THROW(options.serialize());
  options.device_ids = {0};
  EXPECT_THROW(options.serialize(), std::invalid_argument);
  options.device_ids = {0, 1};
  EXPECT_NO_THROW(options.serialize());
  options.num_partitions = 0;
  EXPECT_THROW(options.serialize(), std::invalid_argument);
}

TEST(CompileOptions, AnOverrideHasAnEffect) {
  const TemporaryFolder folder;
  compile_with(with_override("xla_dump_to", folder.path().string()));
  EXPECT_FALSE(std::filesystem::is_empty(folder.path()));
}

TEST(CompileOptions, OverridesOfEachType) {
  CompileOptions options;
  options.overrides = {{"xla_backend_optimization_level", int64_t{1}},
                       {"xla_cpu_enable_fast_math", false},
                       {"xla_cpu_prefer_vector_width", int64_t{256}}};
  const Buffer a = upload<float>({1, 2, 3, 4}, {4});
  const LoadedExecutable program = compile_with(options);
  EXPECT_EQ(download<float>(testing::run(program, {a.raw(), a.raw()})),
            (std::vector<float>{2, 4, 6, 8}));
}

TEST(CompileOptions, AnUnknownOverrideIsRefused) {
  const Error error = expect_error([] { compile_with(with_override("xla_no_such_option", true)); });
  EXPECT_NE(error.details().find("xla_no_such_option"), std::string::npos) << error.details();
}

TEST(CompileOptions, AnOverrideOfTheWrongTypeIsRefused) {
  expect_error([] { compile_with(with_override("xla_cpu_enable_fast_math", 3.5)); });
  EXPECT_TRUE(compile_with({}));
}

TEST(CompileOptions, APortableProgramRunsOnEveryDevice) {
  const LoadedExecutable program = compile_with({});
  for (const Device& on : client().addressable_devices()) {
    const auto id = static_cast<float>(on.id());
    const Buffer a = upload<float>(client(), std::vector<float>(4, id), {4}, on);
    const Buffer result = testing::run(program, {a.raw(), a.raw()}, &on);
    EXPECT_EQ(result.device(), on.raw());
    EXPECT_EQ(download<float>(result), std::vector<float>(4, 2 * id));
  }
}

TEST(CompileOptions, ASerializedPortableProgramRunsOnEveryDevice) {
  const LoadedExecutable program = client().load(compile_with({}).serialize());
  for (const Device& on : client().addressable_devices()) {
    const Buffer a = upload<float>(client(), std::vector<float>(4, 1), {4}, on);
    EXPECT_EQ(testing::run(program, {a.raw(), a.raw()}, &on).device(), on.raw());
  }
}

TEST(CompileOptions, ADeviceAssignmentPicksTheDevice) {
  CompileOptions options;
  options.portable = false;
  options.device_ids = {device(2).id()};
  const LoadedExecutable program = compile_with(options);
  ASSERT_EQ(program.addressable_devices().size(), 1u);
  EXPECT_EQ(program.addressable_devices()[0], device(2).raw());
  const Buffer a = upload<float>(client(), std::vector<float>(4, 1), {4}, device(2));
  const std::array<PJRT_Buffer*, 2> args = {a.raw(), a.raw()};
  PJRT_Buffer* out = nullptr;
  program.execute(args.data(), args.size(), &out);
  EXPECT_EQ(Buffer(client().api(), out).device(), device(2).raw());
}

}  // namespace
}  // namespace torch_tpu::pjrt
