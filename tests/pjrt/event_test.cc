// Events and their callbacks.

#include <future>
#include <stdexcept>

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::expect_error;
using testing::upload;

TEST(Event, AnEmptyOneIsReady) {
  const Event event;
  EXPECT_FALSE(event);
  EXPECT_TRUE(event.is_ready());
  event.await();
  bool called = false;
  event.on_ready([&](const Error* error) { called = error == nullptr; });
  EXPECT_TRUE(called);
}

TEST(Event, AwaitMayBeRepeated) {
  const Buffer buffer = upload<float>({1}, {1});
  const Event event = buffer.ready_event();
  event.await();
  event.await();
  EXPECT_TRUE(event.is_ready());
}

TEST(Event, CallsBackOnSuccess) {
  const Buffer buffer = upload<float>({1}, {1});
  std::promise<bool> succeeded;
  buffer.ready_event().on_ready([&](const Error* error) { succeeded.set_value(error == nullptr); });
  EXPECT_TRUE(succeeded.get_future().get());
}

TEST(Event, CallsBackWhenAProgramEnds) {
  const LoadedExecutable slow = testing::compile(testing::slow_program());
  const Buffer zeros = upload<float>(std::vector<float>(1024 * 1024), {1024, 1024});
  const Buffer word = upload<float>({1}, {1});
  const Buffer result = testing::run(slow, {zeros.raw(), word.raw()});
  std::promise<void> ended;
  // The event itself is gone before the program ends.
  result.ready_event().on_ready([&](const Error*) { ended.set_value(); });
  ended.get_future().get();
  EXPECT_TRUE(result.is_ready());
}

TEST(Event, CallsBackWithTheError) {
  const Buffer buffer = upload<float>({1}, {1});
  buffer.mark_deleted();
  const Event event = buffer.ready_event();
  std::promise<std::string> message;
  event.on_ready(
      [&](const Error* error) { message.set_value(error != nullptr ? error->what() : ""); });
  EXPECT_NE(message.get_future().get(), "");
  expect_error([&] { event.await(); });
  expect_error([&] { event.await(); });
  EXPECT_TRUE(event.is_ready());
}

TEST(Event, DropsAnExceptionOfTheCallback) {
  const Buffer buffer = upload<float>({1}, {1});
  std::promise<void> called;
  buffer.ready_event().on_ready([&](const Error*) {
    called.set_value();
    throw std::runtime_error("ignored");
  });
  called.get_future().get();
}

TEST(Event, MovesItsOwnership) {
  const Buffer buffer = upload<float>({1}, {1});
  Event first = buffer.ready_event();
  Event second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_TRUE(second);
  first = std::move(second);
  first.await();
  first.reset();
  EXPECT_FALSE(first);
}

}  // namespace
}  // namespace torch_tpu::pjrt
