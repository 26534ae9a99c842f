// Views of memory that we own: when the runtime lets go of it. The engine passes changing scalars
// through recycled slots, so this must hold also while a program runs.

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::client;
using testing::device;
using testing::download;
using testing::Slot;
using testing::upload;
using Values = std::vector<float>;

constexpr std::array<int64_t, 1> one = {1};
constexpr std::array<int64_t, 1> four = {4};

void set_flag(void* /*memory*/, void* flag) { static_cast<std::atomic<bool>*>(flag)->store(true); }

bool becomes_true(const std::atomic<bool>& flag) {
  for (int i = 0; i < 2000 && !flag; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return flag;
}

TEST(View, ReadsTheMemoryItself) {
  Slot slot{{1, 2, 3, 4}};
  const Buffer view = client().view_of_device_memory(slot.values.data(), PJRT_Buffer_Type_F32, four,
                                                     device(), nullptr, nullptr);
  EXPECT_EQ(view.unsafe_pointer(), reinterpret_cast<uintptr_t>(slot.values.data()));
  EXPECT_TRUE(view.is_ready());
  slot.values[0] = 9;
  EXPECT_EQ(download<float>(view), (Values{9, 2, 3, 4}));
}

TEST(View, TellsItsEndWithoutUse) {
  Slot slot;
  std::atomic<bool> deleted = false;
  Buffer view = client().view_of_device_memory(slot.values.data(), PJRT_Buffer_Type_F32, four,
                                               device(), set_flag, &deleted);
  EXPECT_FALSE(deleted);
  view.reset();
  EXPECT_TRUE(deleted);
}

TEST(View, TakesACallable) {
  Slot slot;
  const auto count = std::make_shared<int>(0);
  client().view_of_device_memory(slot.values.data(), PJRT_Buffer_Type_F32, four, device(),
                                 [count] { ++*count; });
  EXPECT_EQ(*count, 1);
  EXPECT_EQ(count.use_count(), 1);
}

TEST(View, DropsAnExceptionOfTheCallable) {
  Slot slot;
  client().view_of_device_memory(slot.values.data(), PJRT_Buffer_Type_F32, four, device(),
                                 [] { throw std::runtime_error("ignored"); });
  client().view_of_device_memory(slot.values.data(), PJRT_Buffer_Type_F32, four, device(),
                                 std::function<void()>());
}

TEST(View, IsHeldWhileAProgramRuns) {
  const LoadedExecutable slow = testing::compile(testing::slow_program());
  const Buffer zeros = upload<float>(Values(1024 * 1024), {1024, 1024});
  zeros.await();
  Slot slot{{42}};
  std::atomic<bool> deleted = false;
  Buffer view = client().view_of_device_memory(slot.values.data(), PJRT_Buffer_Type_F32, one,
                                               device(), set_flag, &deleted);
  const Buffer result = testing::run(slow, {zeros.raw(), view.raw()});
  view.reset();
  // The program may have ended already on a fast machine; but if the memory was let go, it has.
  if (deleted) {
    EXPECT_TRUE(result.is_ready());
  }
  EXPECT_EQ(download<float>(result), Values{42});
  EXPECT_TRUE(becomes_true(deleted));
}

TEST(View, SlotsRecycledOnDeletionNeverMixValues) {
  // Writes a slot again as soon as its view is deleted, with programs long and short in between.
  const LoadedExecutable slow = testing::compile(testing::slow_program());
  const LoadedExecutable add = testing::compile(R"(
module @add {
  func.func public @main(%a: tensor<1xf32>, %b: tensor<1xf32>) -> tensor<1xf32> {
    %0 = stablehlo.add %a, %b : tensor<1xf32>
    return %0 : tensor<1xf32>
  }
})");
  const Buffer zeros = upload<float>(Values(1024 * 1024), {1024, 1024});
  zeros.await();
  constexpr int num_slots = 64;
  std::vector<Slot> slots(num_slots);
  std::vector<std::atomic<bool>> free(num_slots);
  for (auto& flag : free) {
    flag = true;
  }
  std::vector<Buffer> results;
  Buffer blocker;
  for (int i = 0; i < 500; ++i) {
    int slot = 0;
    while (!free[slot]) {
      slot = (slot + 1) % num_slots;
    }
    free[slot] = false;
    slots[slot].values[0] = static_cast<float>(i);
    const Buffer view = client().view_of_device_memory(
        slots[slot].values.data(), PJRT_Buffer_Type_F32, one, device(), set_flag, &free[slot]);
    if (i % 50 == 0) {
      blocker = testing::run(slow, {zeros.raw(), view.raw()});
      results.push_back(testing::run(add, {blocker.raw(), upload<float>({0}, {1}).raw()}));
    } else if (i % 50 < 10) {
      // Depends on the slow program, so it waits while its view is already dropped.
      const Buffer zero = upload<float>({-static_cast<float>(i - i % 50)}, {1});
      const Buffer shifted = testing::run(add, {blocker.raw(), zero.raw()});
      results.push_back(testing::run(add, {shifted.raw(), view.raw()}));
    } else {
      const Buffer zero = upload<float>({0}, {1});
      results.push_back(testing::run(add, {zero.raw(), view.raw()}));
    }
  }
  for (int i = 0; i < 500; ++i) {
    EXPECT_EQ(download<float>(results[i]), Values{static_cast<float>(i)}) << i;
  }
}

TEST(View, OneThatStaysMayBeRewrittenAfterTheDoneEvent) {
  // The cheapest way to pass a changing scalar: no buffer is made per call.
  const LoadedExecutable slow = testing::compile(testing::slow_program());
  const Buffer zeros = upload<float>(Values(1024 * 1024), {1024, 1024});
  zeros.await();
  Slot slot;
  const Buffer view = client().view_of_device_memory(slot.values.data(), PJRT_Buffer_Type_F32, one,
                                                     device(), nullptr, nullptr);
  std::vector<Buffer> results;
  for (int i = 0; i < 5; ++i) {
    slot.values[0] = static_cast<float>(i);
    const std::array<PJRT_Buffer*, 2> args = {zeros.raw(), view.raw()};
    PJRT_Buffer* out = nullptr;
    PJRT_Event* done = nullptr;
    slow.execute(args.data(), args.size(), &out, device().raw(), {}, &done);
    results.emplace_back(client().api(), out);
    Event(client().api(), done).await();
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(download<float>(results[i]), Values{static_cast<float>(i)});
  }
}

TEST(View, MayBeDonated) {
  const LoadedExecutable increment = testing::compile(R"(
module @increment {
  func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
    %0 = stablehlo.add %a, %a : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
})");
  Slot slot{{1, 2, 3, 4}};
  std::atomic<bool> deleted = false;
  Buffer view = client().view_of_device_memory(slot.values.data(), PJRT_Buffer_Type_F32, four,
                                               device(), set_flag, &deleted);
  Buffer result = testing::run(increment, {view.raw()});
  EXPECT_EQ(download<float>(result), (Values{2, 4, 6, 8}));
  EXPECT_TRUE(view.is_deleted());
  const bool aliased = result.unsafe_pointer() == reinterpret_cast<uintptr_t>(slot.values.data());
  EXPECT_EQ(slot.values[3], aliased ? 8 : 4);
  view.reset();
  if (aliased) {
    EXPECT_FALSE(deleted) << "the result still lies in the slot";
    result.reset();
  }
  EXPECT_TRUE(becomes_true(deleted));
}

}  // namespace
}  // namespace torch_tpu::pjrt
