// Completion of asynchronous work.
#pragma once

#include <pjrt_c_api.h>

#include <functional>
#include <utility>

#include "pjrt/error.h"

namespace torch_tpu::pjrt {

/// Owns a PJRT_Event, or nothing: an empty event counts as ready and successful. Move-only.
class Event {
 public:
  /// `error` is null if the work succeeded.
  using Callback = std::function<void(const Error* error)>;

  Event() = default;
  Event(const PJRT_Api* api, PJRT_Event* event) : api_(api), event_(event) {}
  ~Event() { reset(); }

  Event(Event&& other) noexcept : api_(other.api_), event_(other.release()) {}
  Event& operator=(Event&& other) noexcept {
    if (this != &other) {
      reset();
      api_ = other.api_;
      event_ = other.release();
    }
    return *this;
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  explicit operator bool() const { return event_ != nullptr; }
  PJRT_Event* raw() const { return event_; }

  /// Gives up ownership.
  PJRT_Event* release() { return std::exchange(event_, nullptr); }

  /// Destroys the event. The work goes on, and registered callbacks still run.
  void reset() noexcept;

  /// Waits; throws the Error of the work if it failed. May be called again, with the same outcome.
  /// Blocks: release the GIL before.
  void await() const;

  /// True if the work has ended, well or not. Does not block.
  bool is_ready() const;

  /// Runs `callback` once, when the work has ended: on a thread of the runtime, or in this call if
  /// it has ended already. The event may be destroyed before. The callback must never take the GIL
  /// (a thread that holds it may be waiting for the runtime), must not wait for other events, and
  /// an exception that leaves it is dropped.
  void on_ready(Callback callback) const;

 private:
  const PJRT_Api* api_ = nullptr;
  PJRT_Event* event_ = nullptr;
};

}  // namespace torch_tpu::pjrt
