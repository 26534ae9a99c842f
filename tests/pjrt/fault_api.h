// What the fault plugin exports besides GetPjrtApi. Tests find these functions with dlsym.
//
// The plugin loads the plugin named by the environment variable FAULT_TARGET and passes all calls
// on. Faults come from fault_set(), or at load from FAULT_SET, e.g.
//   FAULT_SET="execute:2:fail:8;to_host:0:delay:50"
// FAULT_API_MAJOR and FAULT_API_SIZE make it pretend to another major version, and to a function
// table of that many bytes, as an older plugin has.
#pragma once

#include <cstdint>

enum FaultAction {
  FAULT_NONE = 0,
  /// The call fails with the PJRT_Error_Code `value`.
  FAULT_FAIL = 1,
  /// The call sleeps for `value` milliseconds first.
  FAULT_DELAY = 2,
  /// The call succeeds, but the event that it returns fails with the code `value`.
  FAULT_FAIL_LATER = 3,
};

extern "C" {
/// Sets what the `nth` call from now (0: the next one; -1: each) to `point` does. One fault per
/// point. False if there is no such point.
///
/// Points: client_create, compile, deserialize, serialize, get_executable, num_outputs, execute,
/// buffer_from_host, view, copy_to_device, to_host, ready_event, event_await, event_on_ready.
/// With events, for FAULT_FAIL_LATER: execute (its done event), buffer_from_host, to_host,
/// ready_event.
using FaultSet = bool(const char* point, int64_t nth, int action, int64_t value);
/// Removes all faults.
using FaultClear = void();
/// Objects made and not yet destroyed: clients, buffers, events, executables, loaded_executables,
/// errors (injected ones only). -1 if there is no such kind.
using FaultLive = int64_t(const char* kind);
/// How often `point` was called since the plugin was loaded. -1 if there is no such point.
using FaultCalls = int64_t(const char* point);
}
