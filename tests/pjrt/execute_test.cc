// Running programs: arguments, outputs, donation, errors, threads.

#include <thread>

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::client;
using testing::device;
using testing::download;
using testing::expect_error;
using testing::run;
using testing::upload;
using Values = std::vector<float>;

constexpr std::string_view donating_program = R"(
module @donating {
  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>)
      -> tensor<4xf32> {
    %0 = stablehlo.add %a, %b : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})";

TEST(Execute, Adds) {
  const LoadedExecutable add = testing::compile(testing::add_program);
  const Buffer a = upload<float>({1, 2, 3, 4}, {4});
  const Buffer b = upload<float>({10, 20, 30, 40}, {4});
  EXPECT_EQ(download<float>(run(add, {a.raw(), b.raw()})), (Values{11, 22, 33, 44}));
}

TEST(Execute, GivesTheDoneEvent) {
  const LoadedExecutable add = testing::compile(testing::add_program);
  const Buffer a = upload<float>(Values(4), {4});
  const std::array<PJRT_Buffer*, 2> args = {a.raw(), a.raw()};
  PJRT_Buffer* out = nullptr;
  PJRT_Event* raw_done = nullptr;
  add.execute(args.data(), args.size(), &out, device().raw(), {}, &raw_done);
  const Buffer result(client().api(), out);
  const Event done(client().api(), raw_done);
  ASSERT_TRUE(done);
  done.await();
  EXPECT_TRUE(result.is_ready());
}

TEST(Execute, SeveralOutputs) {
  const LoadedExecutable program = testing::compile(R"(
module @several {
  func.func public @main(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>, tensor<2xi1>) {
    %0 = stablehlo.add %a, %a : tensor<2xf32>
    %1 = stablehlo.constant dense<7.0> : tensor<f32>
    %2 = stablehlo.compare GT, %0, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
    return %0, %1, %2 : tensor<2xf32>, tensor<f32>, tensor<2xi1>
  }
})");
  ASSERT_EQ(program.num_outputs(), 3u);
  const Buffer a = upload<float>({1, -1}, {2});
  PJRT_Buffer* arg = a.raw();
  std::array<PJRT_Buffer*, 3> outs{};
  program.execute(&arg, 1, outs.data(), device().raw());
  const Buffer doubled(client().api(), outs[0]);
  const Buffer constant(client().api(), outs[1]);
  const Buffer greater(client().api(), outs[2]);
  EXPECT_EQ(download<float>(doubled), (Values{2, -2}));
  EXPECT_EQ(download<float>(constant), Values{7});
  EXPECT_EQ(greater.element_type(), PJRT_Buffer_Type_PRED);
}

TEST(Execute, NoArguments) {
  const LoadedExecutable program = testing::compile(R"(
module @constant {
  func.func public @main() -> tensor<2xf32> {
    %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
    return %0 : tensor<2xf32>
  }
})");
  EXPECT_EQ(download<float>(run(program, {})), (Values{1, 2}));
}

TEST(Execute, TakesInputsThatAreNotReadyAndMayBeDropped) {
  const LoadedExecutable slow = testing::compile(testing::slow_program());
  Buffer zeros = upload<float>(Values(1024 * 1024), {1024, 1024});
  Buffer word = upload<float>({1}, {1});
  Buffer first = run(slow, {zeros.raw(), word.raw()});
  Buffer second = run(slow, {zeros.raw(), first.raw()});
  zeros.reset();
  word.reset();
  first.reset();
  EXPECT_EQ(download<float>(second), Values{1});
}

TEST(Execute, DonationDeletesTheInputAndReusesItsMemory) {
  const LoadedExecutable program = testing::compile(donating_program);
  const Buffer a = upload<float>({1, 2, 3, 4}, {4});
  const Buffer b = upload<float>({1, 1, 1, 1}, {4});
  a.await();
  const uintptr_t memory = a.unsafe_pointer();
  const Buffer result = run(program, {a.raw(), b.raw()});
  EXPECT_TRUE(a.is_deleted());
  EXPECT_FALSE(b.is_deleted());
  EXPECT_EQ(download<float>(result), (Values{2, 3, 4, 5}));
  EXPECT_EQ(result.unsafe_pointer(), memory);
  expect_error([&] { run(program, {a.raw(), b.raw()}); });
}

TEST(Execute, NonDonatableInputsSurvive) {
  const LoadedExecutable program = testing::compile(donating_program);
  const Buffer a = upload<float>({1, 2, 3, 4}, {4});
  const Buffer b = upload<float>({1, 1, 1, 1}, {4});
  const std::array<int64_t, 1> keep = {0};
  const Buffer result = run(program, {a.raw(), b.raw()}, nullptr, keep);
  EXPECT_FALSE(a.is_deleted());
  EXPECT_EQ(download<float>(result), (Values{2, 3, 4, 5}));
  EXPECT_EQ(download<float>(a), (Values{1, 2, 3, 4}));
}

TEST(Execute, DonatingABufferTwiceIsAnError) {
  const LoadedExecutable program = testing::compile(donating_program);
  const Buffer a = upload<float>({1, 2, 3, 4}, {4});
  expect_error([&] { run(program, {a.raw(), a.raw()}); });
}

TEST(Execute, AWrongNumberOfArgumentsIsAnError) {
  const LoadedExecutable add = testing::compile(testing::add_program);
  const Buffer a = upload<float>(Values(4), {4});
  expect_error([&] { run(add, {a.raw()}); });
  EXPECT_EQ(download<float>(run(add, {a.raw(), a.raw()})), Values(4));
}

TEST(Execute, AWrongSizeIsAnError) {
  const LoadedExecutable add = testing::compile(testing::add_program);
  const Buffer a = upload<float>(Values(4), {4});
  const Buffer wrong = upload<float>(Values(5), {5});
  expect_error([&] { run(add, {a.raw(), wrong.raw()}).await(); });
}

TEST(Execute, ADeletedArgumentIsAnError) {
  const LoadedExecutable add = testing::compile(testing::add_program);
  const Buffer a = upload<float>(Values(4), {4});
  a.mark_deleted();
  expect_error([&] { run(add, {a.raw(), a.raw()}); });
}

TEST(Execute, OutputsUntouchedOnError) {
  const LoadedExecutable add = testing::compile(testing::add_program);
  const Buffer a = upload<float>(Values(4), {4});
  PJRT_Buffer* arg = a.raw();
  PJRT_Buffer* out = nullptr;
  PJRT_Event* done = nullptr;
  expect_error([&] { add.execute(&arg, 1, &out, device().raw(), {}, &done); });
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(done, nullptr);
}

TEST(Execute, FromSeveralThreads) {
  const LoadedExecutable add = testing::compile(testing::add_program);
  std::vector<std::thread> threads;
  std::array<bool, 4> right{};
  for (size_t t = 0; t < right.size(); ++t) {
    threads.emplace_back([&, t] {
      const auto value = static_cast<float>(t);
      const Buffer step = upload<float>(Values(4, value), {4});
      Buffer sum = upload<float>(Values(4), {4});
      for (int i = 0; i < 200; ++i) {
        sum = run(add, {sum.raw(), step.raw()});
      }
      right[t] = download<float>(sum) == Values(4, 200 * value);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right, (std::array{true, true, true, true}));
}

TEST(Execute, MoreInFlightThanTheRuntimeAllows) {
  // Past its limit Execute blocks; it must neither fail nor hang.
  const LoadedExecutable slow = testing::compile(testing::slow_program());
  const Buffer zeros = upload<float>(Values(1024 * 1024), {1024, 1024});
  const Buffer word = upload<float>({1}, {1});
  std::vector<Buffer> results;
  for (int i = 0; i < 40; ++i) {
    results.push_back(run(slow, {zeros.raw(), word.raw()}));
  }
  for (const Buffer& result : results) {
    EXPECT_EQ(download<float>(result), Values{1});
  }
}

}  // namespace
}  // namespace torch_tpu::pjrt
