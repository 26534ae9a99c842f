// Programs over several devices of one process.

#include <thread>

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::client;
using testing::device;
using testing::download;
using testing::upload;
using Values = std::vector<float>;

constexpr int num_devices = 4;

constexpr std::string_view all_reduce_program = R"(
module @all_reduce attributes {mhlo.num_replicas = 4 : i32} {
  func.func public @main(%a: tensor<2xf32>) -> tensor<2xf32> {
    %0 = "stablehlo.all_reduce"(%a) ({
      ^bb0(%x: tensor<f32>, %y: tensor<f32>):
        %s = stablehlo.add %x, %y : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}
      : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
})";

struct Replicas {
  std::vector<Buffer> inputs;
  std::vector<std::array<PJRT_Buffer*, 1>> args;
  std::vector<std::array<PJRT_Buffer*, 1>> outs;

  explicit Replicas(const LoadedExecutable& program) {
    for (PJRT_Device* raw : program.addressable_devices()) {
      const Device on(client().api(), raw);
      inputs.push_back(upload<float>(client(), Values(2, static_cast<float>(on.id())), {2}, on));
      args.push_back({inputs.back().raw()});
      outs.push_back({nullptr});
    }
  }
};

LoadedExecutable compile_all_reduce() {
  CompileOptions options;
  options.portable = false;
  options.num_replicas = num_devices;
  return client().compile(all_reduce_program, options.serialize());
}

Values expected_sum() {
  float sum = 0;
  for (const Device& each : client().addressable_devices()) {
    sum += static_cast<float>(each.id());
  }
  return Values(2, sum);
}

TEST(MultiDevice, OneCallRunsAllReplicas) {
  const LoadedExecutable program = compile_all_reduce();
  ASSERT_EQ(program.addressable_devices().size(), 4u);
  EXPECT_EQ(program.num_replicas(), 4u);
  Replicas replicas(program);
  std::array<PJRT_Buffer* const*, num_devices> args;
  std::array<PJRT_Buffer**, num_devices> outs;
  std::array<PJRT_Event*, num_devices> done{};
  for (int i = 0; i < num_devices; ++i) {
    args[i] = replicas.args[i].data();
    outs[i] = replicas.outs[i].data();
  }
  program.execute_on_all(args, 1, outs, {}, done.data());
  for (int i = 0; i < num_devices; ++i) {
    Event(client().api(), done[i]).await();
    const Buffer result(client().api(), replicas.outs[i][0]);
    EXPECT_EQ(result.device(), program.addressable_devices()[i]);
    EXPECT_EQ(download<float>(result), expected_sum());
  }
}

TEST(MultiDevice, ACallPerDeviceRunsAllReplicas) {
  // As a process with a thread per device does it.
  const LoadedExecutable program = compile_all_reduce();
  Replicas replicas(program);
  std::vector<std::thread> threads;
  for (int i = 0; i < num_devices; ++i) {
    threads.emplace_back([&, i] {
      program.execute(replicas.args[i].data(), 1, replicas.outs[i].data(),
                      program.addressable_devices()[i], {}, nullptr, /*launch_id=*/1);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  for (int i = 0; i < num_devices; ++i) {
    EXPECT_EQ(download<float>(Buffer(client().api(), replicas.outs[i][0])), expected_sum());
  }
}

TEST(MultiDevice, SpmdPartitions) {
  CompileOptions options;
  options.portable = false;
  options.num_partitions = 2;
  options.use_spmd = true;
  const LoadedExecutable program = client().compile(R"(
module @spmd attributes {mhlo.num_partitions = 2 : i32} {
  func.func public @main(%a: tensor<4xf32> {mhlo.sharding = "{devices=[2]<=[2]}"})
      -> (tensor<f32> {mhlo.sharding = "{replicated}"}) {
    %z = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0]
       : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }
})",
                                                    options.serialize());
  EXPECT_EQ(program.num_partitions(), 2u);
  const auto devices = program.addressable_devices();
  ASSERT_EQ(devices.size(), 2u);
  const Buffer low = upload<float>(client(), {1, 2}, {2}, Device(client().api(), devices[0]));
  const Buffer high = upload<float>(client(), {3, 4}, {2}, Device(client().api(), devices[1]));
  const std::array<PJRT_Buffer*, 2> shards = {low.raw(), high.raw()};
  const std::array<PJRT_Buffer* const*, 2> args = {&shards[0], &shards[1]};
  std::array<PJRT_Buffer*, 2> results{};
  const std::array<PJRT_Buffer**, 2> outs = {&results[0], &results[1]};
  program.execute_on_all(args, 1, outs);
  for (PJRT_Buffer* result : results) {
    EXPECT_EQ(download<float>(Buffer(client().api(), result)), Values{10});
  }
}

}  // namespace
}  // namespace torch_tpu::pjrt
