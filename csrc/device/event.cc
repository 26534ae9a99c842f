#include "device/event.h"

#include <c10/util/Exception.h>

#include <chrono>
#include <condition_variable>
#include <optional>
#include <vector>

#include "device/current.h"
#include "device/errors.h"
#include "pjrt/event.h"

namespace torch_tpu::device {

using Clock = std::chrono::steady_clock;

/// What one record() waits for.
struct Event::Mark {
  std::vector<pjrt::Event> work;
  bool timed = false;
  std::mutex mutex;
  std::condition_variable all_ended;
  size_t left = 0;          // parts of the work that have not ended
  Clock::time_point ended;  // when the last part did

  /// Runs on threads of the plugin.
  void one_ended() {
    std::lock_guard lock(mutex);
    if (--left > 0) return;
    ended = Clock::now();
    all_ended.notify_all();
  }
  /// The runtime may tell a waiting thread of the end before it runs one_ended().
  void wait_for_time() {
    std::unique_lock lock(mutex);
    all_ended.wait(lock, [this] { return left == 0; });
  }
  std::optional<Clock::time_point> end_time() {
    std::lock_guard lock(mutex);
    return left == 0 ? std::optional(ended) : std::nullopt;
  }
};

std::shared_ptr<Event::Mark> Event::mark() const {
  std::lock_guard lock(mutex_);
  return mark_;
}

void Event::record(c10::DeviceIndex index, bool timed) {
  auto mark = std::make_shared<Mark>();
  mark->timed = timed;
  engine::Device* device = engine::Runtime::started() ? &engine_device(index) : nullptr;
  // What is captured has not started; the program that comes of it keeps its order.
  if (device && !device->captures()) {
    translated("Event.record", [&] { mark->work = device->outstanding(); });
  }
  if (timed) {
    mark->left = mark->work.size() + 1;
    for (const pjrt::Event& event : mark->work) {
      event.on_ready([mark](const pjrt::Error*) { mark->one_ended(); });
    }
    mark->one_ended();
  }
  std::lock_guard lock(mutex_);
  mark_ = std::move(mark);
}

bool Event::query() const {
  const auto mark = this->mark();
  if (!mark) return true;
  if (mark->timed) return mark->end_time().has_value();
  for (const pjrt::Event& event : mark->work) {
    if (!event.is_ready()) return false;
  }
  return true;
}

void Event::synchronize() const {
  const auto mark = this->mark();
  if (!mark) return;
  translated("Event.synchronize", [&] {
    const engine::WaitScope wait;
    for (const pjrt::Event& event : mark->work) event.await();
    if (mark->timed) mark->wait_for_time();
  });
}

double Event::milliseconds_until(const Event& end) const {
  const auto first = mark();
  const auto last = end.mark();
  TORCH_CHECK(first && last, "Both events must be recorded before calculating elapsed time.");
  TORCH_CHECK(first->timed && last->timed,
              "Both events must be created with argument 'enable_timing=True'.");
  const auto begin_time = first->end_time();
  const auto end_time = last->end_time();
  TORCH_CHECK(begin_time && end_time,
              "Both events must be completed before calculating elapsed time.");
  return std::chrono::duration<double, std::milli>(*end_time - *begin_time).count();
}

}  // namespace torch_tpu::device
