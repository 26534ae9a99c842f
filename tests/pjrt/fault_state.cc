#include "fault_state.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>
#include <utility>

namespace fault {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Point::Count)> point_names = {
    "client_create", "compile",     "deserialize",      "serialize",     "get_executable",
    "num_outputs",   "execute",     "buffer_from_host", "view",          "copy_to_device",
    "to_host",       "ready_event", "event_await",      "event_on_ready"};

constexpr std::array<std::string_view, static_cast<size_t>(Kind::Count)> kind_names = {
    "clients", "buffers", "events", "executables", "loaded_executables", "errors"};

constexpr std::array<std::string_view, 4> action_names = {"none", "fail", "delay", "fail_later"};

template <size_t N>
int index_of(const std::array<std::string_view, N>& names, std::string_view name) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? -1 : static_cast<int>(found - names.begin());
}

}  // namespace

State& State::instance() {
  // Never destroyed: threads of the target may outlive the statics.
  static State& state = *new State;
  return state;
}

State::State() { read_environment(); }

void State::read_environment() {
  const char* text = std::getenv("FAULT_SET");
  if (text == nullptr) {
    return;
  }
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ';');) {
    std::istringstream fields(entry);
    std::string point, nth, action, value;
    std::getline(fields, point, ':');
    std::getline(fields, nth, ':');
    std::getline(fields, action, ':');
    std::getline(fields, value, ':');
    set(point, std::atoll(nth.c_str()), index_of(action_names, action), std::atoll(value.c_str()));
  }
}

bool State::set(std::string_view point, int64_t nth, int action, int64_t value) {
  const int index = index_of(point_names, point);
  if (index < 0 || action < FAULT_NONE || action > FAULT_FAIL_LATER) {
    return false;
  }
  const std::lock_guard lock(mutex_);
  faults_[static_cast<size_t>(index)] = {nth, static_cast<FaultAction>(action), value};
  return true;
}

void State::clear() {
  const std::lock_guard lock(mutex_);
  faults_ = {};
}

int64_t State::live(std::string_view kind) const {
  const int index = index_of(kind_names, kind);
  return index < 0 ? -1 : live_[static_cast<size_t>(index)].load();
}

int64_t State::calls(std::string_view point) const {
  const int index = index_of(point_names, point);
  return index < 0 ? -1 : calls_[static_cast<size_t>(index)].load();
}

Verdict State::enter(Point point) {
  const auto index = static_cast<size_t>(point);
  ++calls_[index];
  Fault fault;
  {
    const std::lock_guard lock(mutex_);
    Fault& set = faults_[index];
    if (set.action == FAULT_NONE) {
      return {};
    }
    if (set.nth > 0) {
      --set.nth;
      return {};
    }
    fault = set;
    if (set.nth == 0) {
      set = {};
    }
  }
  const auto code = static_cast<PJRT_Error_Code>(fault.value);
  switch (fault.action) {
    case FAULT_FAIL:
      return {.error = make_error(code, "injected fault: " + std::string(point_names[index]) +
                                            "\nsource lines that a user need not see")};
    case FAULT_DELAY:
      std::this_thread::sleep_for(std::chrono::milliseconds(fault.value));
      return {};
    case FAULT_FAIL_LATER:
      return {.later = code};
    case FAULT_NONE:
      break;
  }
  return {};
}

PJRT_Error* State::make_error(PJRT_Error_Code code, std::string message) {
  auto* error = new InjectedError{code, std::move(message)};
  const std::lock_guard lock(mutex_);
  errors_.insert(error);
  created(Kind::Errors);
  return reinterpret_cast<PJRT_Error*>(error);
}

InjectedError* State::find(const PJRT_Error* error) {
  auto* injected = const_cast<InjectedError*>(reinterpret_cast<const InjectedError*>(error));
  const std::lock_guard lock(mutex_);
  return errors_.contains(injected) ? injected : nullptr;
}

void State::destroy(InjectedError* error) {
  const std::lock_guard lock(mutex_);
  errors_.erase(error);
  destroyed(Kind::Errors);
  delete error;
}

PJRT_Event* State::make_event(PJRT_Event* inner, PJRT_Error_Code code) {
  auto* event = new InjectedEvent{inner, code};
  const std::lock_guard lock(mutex_);
  events_.insert(event);
  return reinterpret_cast<PJRT_Event*>(event);
}

InjectedEvent* State::find(PJRT_Event* event) {
  auto* injected = reinterpret_cast<InjectedEvent*>(event);
  const std::lock_guard lock(mutex_);
  return events_.contains(injected) ? injected : nullptr;
}

void State::destroy(InjectedEvent* event) {
  const std::lock_guard lock(mutex_);
  events_.erase(event);
  delete event;
}

void State::set_num_outputs(PJRT_LoadedExecutable* executable, size_t count) {
  const std::lock_guard lock(mutex_);
  num_outputs_[executable] = count;
}

size_t State::num_outputs(PJRT_LoadedExecutable* executable) {
  const std::lock_guard lock(mutex_);
  return num_outputs_.at(executable);
}

}  // namespace fault
