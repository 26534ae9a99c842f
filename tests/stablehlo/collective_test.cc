// Collectives, run on four devices of a CPU plugin.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/compile_options.h"
#include "runner.h"

namespace torch_tpu::stablehlo {
namespace {

using Floats = std::vector<float>;

constexpr int kDevices = 4;
const std::vector<Dims> kPairs{{0, 2}, {1, 3}};

// Never destroyed: a plugin's threads may outlive main.
const pjrt::Client& client() {
  static const auto* made = new std::shared_ptr<pjrt::Client>(
      pjrt::Client::create(pjrt::Plugin::load(std::getenv("TORCH_TPU_TEST_PLUGIN")),
                           {{"cpu_device_count", int64_t{kDevices}}}));
  return **made;
}

/// What each device gets of `body`, where device d has {10 d, 10 d + 1, 10 d + 2, 10 d + 3}.
std::vector<Floats> on_all(Value (*body)(Builder&, Value)) {
  Builder b;
  const Value result = body(b, b.parameter({DType::F32, {4}}));
  pjrt::CompileOptions options;
  options.portable = false;
  options.num_replicas = kDevices;
  const pjrt::LoadedExecutable program =
      client().compile(b.finish({{result}}, "test"), options.serialize());
  std::vector<pjrt::Buffer> inputs;
  std::array<std::array<PJRT_Buffer*, 1>, kDevices> args, outs{};
  std::array<PJRT_Buffer* const*, kDevices> all_args;
  std::array<PJRT_Buffer**, kDevices> all_outs;
  for (int d = 0; d < kDevices; ++d) {
    Floats numbers;
    for (int i = 0; i < 4; ++i) numbers.push_back(static_cast<float>(10 * d + i));
    const pjrt::Device device(client().api(), program.addressable_devices()[d]);
    inputs.push_back(client().buffer_from_host(numbers.data(), PJRT_Buffer_Type_F32, Dims{4}, {},
                                               device,
                                               pjrt::HostBufferSemantics::ImmutableOnlyDuringCall));
    args[d] = {inputs.back().raw()};
    all_args[d] = args[d].data();
    all_outs[d] = outs[d].data();
  }
  program.execute_on_all(all_args, 1, all_outs);
  std::vector<Floats> results;
  for (int d = 0; d < kDevices; ++d) {
    pjrt::Buffer buffer(client().api(), outs[d][0]);
    Floats numbers(static_cast<size_t>(result.numel()));
    buffer.to_host(numbers.data(), numbers.size() * sizeof(float)).await();
    results.push_back(std::move(numbers));
  }
  return results;
}

#define SKIP_WITHOUT_DEVICES() \
  SKIP_WITHOUT_PLUGIN();       \
  if (compile_only()) GTEST_SKIP() << "programs are only compiled"

TEST(Collective, AllGatherJoinsAGroup) {
  SKIP_WITHOUT_DEVICES();
  const auto got = on_all([](Builder& b, Value x) { return b.all_gather(x, 0, kPairs); });
  const Floats even{0, 1, 2, 3, 20, 21, 22, 23}, odd{10, 11, 12, 13, 30, 31, 32, 33};
  EXPECT_EQ(got, (std::vector<Floats>{even, odd, even, odd}));
}

TEST(Collective, AllReduceCombinesAGroup) {
  SKIP_WITHOUT_DEVICES();
  const auto sums = on_all([](Builder& b, Value x) { return b.all_reduce(x, "add", kPairs); });
  const Floats even{20, 22, 24, 26}, odd{40, 42, 44, 46};
  EXPECT_EQ(sums, (std::vector<Floats>{even, odd, even, odd}));
  const auto most = on_all([](Builder& b, Value x) { return b.all_reduce(x, "maximum", kPairs); });
  EXPECT_EQ(most[1], (Floats{30, 31, 32, 33}));
}

TEST(Collective, ReduceScatterDealsOutTheSum) {
  SKIP_WITHOUT_DEVICES();
  const auto got =
      on_all([](Builder& b, Value x) { return b.reduce_scatter(x, 0, "add", kPairs); });
  EXPECT_EQ(got, (std::vector<Floats>{{20, 22}, {40, 42}, {24, 26}, {44, 46}}));
}

TEST(Collective, AllToAllExchangesParts) {
  SKIP_WITHOUT_DEVICES();
  const auto got = on_all([](Builder& b, Value x) { return b.all_to_all(x, 0, 0, kPairs); });
  EXPECT_EQ(got, (std::vector<Floats>{
                     {0, 1, 20, 21}, {10, 11, 30, 31}, {2, 3, 22, 23}, {12, 13, 32, 33}}));
}

TEST(Collective, GroupsMustBeAlikeAndDistinct) {
  Builder b;
  const Value x = b.parameter({DType::F32, {4}});
  const std::vector<Dims> uneven{{0, 1}, {2}}, twice{{0, 1}, {1, 2}}, three{{0, 1, 2}};
  EXPECT_THROW(b.all_gather(x, 0, uneven), BuildError);
  EXPECT_THROW(b.all_reduce(x, "add", twice), BuildError);
  EXPECT_THROW(b.reduce_scatter(x, 0, "add", three), BuildError);  // 4 does not divide by 3
  EXPECT_THROW(b.all_to_all(x, 1, 0, kPairs), BuildError);
}

}  // namespace
}  // namespace torch_tpu::stablehlo
