// Events: marks in a device's order of work that can be waited for and timed.
#pragma once

#include <c10/core/Device.h>

#include <memory>
#include <mutex>

namespace torch_tpu::device {

/// Safe to use from any thread. An event that was never recorded counts as done.
class Event {
 public:
  /// Marks the end of all work given to the device so far, in place of what was marked before.
  /// `timed`: also takes the time at which that work ends, as the host sees it.
  void record(c10::DeviceIndex index, bool timed);
  /// Does not block.
  bool query() const;
  /// Blocks, without the GIL. Throws what went wrong in the work.
  void synchronize() const;
  /// Milliseconds from this event's time to that of `end`. Throws unless both are timed and done.
  double milliseconds_until(const Event& end) const;

 private:
  struct Mark;
  std::shared_ptr<Mark> mark() const;

  mutable std::mutex mutex_;
  std::shared_ptr<Mark> mark_;
};

}  // namespace torch_tpu::device
