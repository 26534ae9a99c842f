// Bookkeeping of the fault plugin: which calls are to fail, and which objects are alive.
#pragma once

#include <pjrt_c_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "fault_api.h"

namespace fault {

enum class Point {
  ClientCreate,
  Compile,
  Deserialize,
  Serialize,
  GetExecutable,
  NumOutputs,
  Execute,
  BufferFromHost,
  View,
  CopyToDevice,
  ToHost,
  ReadyEvent,
  EventAwait,
  EventOnReady,
  Count,
};

enum class Kind { Clients, Buffers, Events, Executables, LoadedExecutables, Errors, Count };

/// An injected error; the plugin hands out its address as a PJRT_Error*.
struct InjectedError {
  PJRT_Error_Code code;
  std::string message;
};

/// An injected event: ends when `inner` does, but with an error. Handed out as a PJRT_Event*.
struct InjectedEvent {
  PJRT_Event* inner;
  PJRT_Error_Code code;
};

/// What one call is to do.
struct Verdict {
  /// Set: the call returns this.
  PJRT_Error* error = nullptr;
  /// Not OK: the event that the call returns fails with this.
  PJRT_Error_Code later = PJRT_Error_Code_OK;
};

class State {
 public:
  static State& instance();

  bool set(std::string_view point, int64_t nth, int action, int64_t value);
  void clear();
  int64_t live(std::string_view kind) const;
  int64_t calls(std::string_view point) const;

  /// Counts a call and decides; sleeps here if it is to be delayed.
  Verdict enter(Point point);

  void created(Kind kind, int64_t count = 1) { live_[static_cast<size_t>(kind)] += count; }
  void destroyed(Kind kind) { --live_[static_cast<size_t>(kind)]; }

  PJRT_Error* make_error(PJRT_Error_Code code, std::string message);
  /// Null if the error is the target's.
  InjectedError* find(const PJRT_Error* error);
  void destroy(InjectedError* error);

  PJRT_Event* make_event(PJRT_Event* inner, PJRT_Error_Code code);
  /// Null if the event is the target's.
  InjectedEvent* find(PJRT_Event* event);
  /// The caller destroys the inner event.
  void destroy(InjectedEvent* event);

  void set_num_outputs(PJRT_LoadedExecutable* executable, size_t count);
  size_t num_outputs(PJRT_LoadedExecutable* executable);

 private:
  State();
  void read_environment();

  struct Fault {
    int64_t nth = 0;
    FaultAction action = FAULT_NONE;
    int64_t value = 0;
  };

  mutable std::mutex mutex_;
  std::array<Fault, static_cast<size_t>(Point::Count)> faults_{};
  std::array<std::atomic<int64_t>, static_cast<size_t>(Point::Count)> calls_{};
  std::array<std::atomic<int64_t>, static_cast<size_t>(Kind::Count)> live_{};
  std::unordered_set<InjectedError*> errors_;
  std::unordered_set<InjectedEvent*> events_;
  std::unordered_map<PJRT_LoadedExecutable*, size_t> num_outputs_;
};

}  // namespace fault
