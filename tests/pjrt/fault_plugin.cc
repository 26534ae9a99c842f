// A PJRT plugin for tests: passes every call on to a real plugin, counts objects, and fails or
// delays the calls that fault_set() names. See fault_api.h.

#include <dlfcn.h>
#include <pjrt_c_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "fault_state.h"

#define FAULT_EXPORT extern "C" __attribute__((visibility("default")))

namespace fault {
namespace {

const PJRT_Api* target = nullptr;

State& state() { return State::instance(); }

/// Zeroed arguments of a call to the target.
template <class Args>
Args make_args(size_t struct_size) {
  Args args{};
  args.struct_size = struct_size;
  return args;
}

// ------------------------------------------ errors ----------------------------------------------

void error_destroy(PJRT_Error_Destroy_Args* args) {
  if (InjectedError* error = state().find(args->error)) {
    state().destroy(error);
  } else {
    target->PJRT_Error_Destroy(args);
  }
}

void error_message(PJRT_Error_Message_Args* args) {
  if (const InjectedError* error = state().find(args->error)) {
    args->message = error->message.data();
    args->message_size = error->message.size();
  } else {
    target->PJRT_Error_Message(args);
  }
}

PJRT_Error* error_get_code(PJRT_Error_GetCode_Args* args) {
  if (const InjectedError* error = state().find(args->error)) {
    args->code = error->code;
    return nullptr;
  }
  return target->PJRT_Error_GetCode(args);
}

// ------------------------------------------ events ----------------------------------------------

/// Counts a new event, and replaces it by one that fails, if the verdict says so.
void hand_out(PJRT_Event*& event, const Verdict& verdict) {
  if (event == nullptr) {
    return;
  }
  state().created(Kind::Events);
  if (verdict.later != PJRT_Error_Code_OK) {
    event = state().make_event(event, verdict.later);
  }
}

PJRT_Error* later_error(PJRT_Error_Code code) {
  return state().make_error(code, "injected fault: asynchronous\nsource lines");
}

void drop(PJRT_Error* error) {
  if (error != nullptr) {
    auto args = make_args<PJRT_Error_Destroy_Args>(PJRT_Error_Destroy_Args_STRUCT_SIZE);
    args.error = error;
    target->PJRT_Error_Destroy(&args);
  }
}

PJRT_Error* event_destroy(PJRT_Event_Destroy_Args* args) {
  state().destroyed(Kind::Events);
  if (InjectedEvent* event = state().find(args->event)) {
    PJRT_Event_Destroy_Args inner = *args;
    inner.event = event->inner;
    state().destroy(event);
    return target->PJRT_Event_Destroy(&inner);
  }
  return target->PJRT_Event_Destroy(args);
}

PJRT_Error* event_is_ready(PJRT_Event_IsReady_Args* args) {
  PJRT_Event_IsReady_Args inner = *args;
  if (const InjectedEvent* event = state().find(args->event)) {
    inner.event = event->inner;
  }
  PJRT_Error* error = target->PJRT_Event_IsReady(&inner);
  args->is_ready = inner.is_ready;
  return error;
}

PJRT_Error* event_error(PJRT_Event_Error_Args* args) {
  if (const InjectedEvent* event = state().find(args->event)) {
    return later_error(event->code);
  }
  return target->PJRT_Event_Error(args);
}

PJRT_Error* event_await(PJRT_Event_Await_Args* args) {
  const Verdict verdict = state().enter(Point::EventAwait);
  const InjectedEvent* event = state().find(args->event);
  if (verdict.error == nullptr && event == nullptr) {
    return target->PJRT_Event_Await(args);
  }
  // It fails, but not before the work has ended: until then it may use the caller's memory.
  PJRT_Event_Await_Args inner = *args;
  inner.event = event != nullptr ? event->inner : args->event;
  drop(target->PJRT_Event_Await(&inner));
  return verdict.error != nullptr ? verdict.error : later_error(event->code);
}

struct FailingCallback {
  PJRT_Event_OnReadyCallback callback;
  void* user_arg;
  PJRT_Error_Code code;
};

void call_with_error(PJRT_Error* error, void* arg) {
  drop(error);
  auto* failing = static_cast<FailingCallback*>(arg);
  failing->callback(later_error(failing->code), failing->user_arg);
  delete failing;
}

PJRT_Error* event_on_ready(PJRT_Event_OnReady_Args* args) {
  if (const Verdict verdict = state().enter(Point::EventOnReady); verdict.error != nullptr) {
    return verdict.error;
  }
  if (const InjectedEvent* event = state().find(args->event)) {
    PJRT_Event_OnReady_Args inner = *args;
    inner.event = event->inner;
    inner.callback = call_with_error;
    inner.user_arg = new FailingCallback{args->callback, args->user_arg, event->code};
    return target->PJRT_Event_OnReady(&inner);
  }
  return target->PJRT_Event_OnReady(args);
}

// ------------------------------------------ clients ---------------------------------------------

PJRT_Error* client_create(PJRT_Client_Create_Args* args) {
  if (const Verdict verdict = state().enter(Point::ClientCreate); verdict.error != nullptr) {
    return verdict.error;
  }
  PJRT_Error* error = target->PJRT_Client_Create(args);
  state().created(Kind::Clients, error == nullptr);
  return error;
}

PJRT_Error* client_destroy(PJRT_Client_Destroy_Args* args) {
  state().destroyed(Kind::Clients);
  return target->PJRT_Client_Destroy(args);
}

// ---------------------------------------- executables -------------------------------------------

/// Counts a new executable, and learns how many outputs it has.
PJRT_Error* adopt(PJRT_LoadedExecutable* executable, PJRT_Error* error) {
  if (error != nullptr) {
    return error;
  }
  state().created(Kind::LoadedExecutables);
  auto get = make_args<PJRT_LoadedExecutable_GetExecutable_Args>(
      PJRT_LoadedExecutable_GetExecutable_Args_STRUCT_SIZE);
  get.loaded_executable = executable;
  drop(target->PJRT_LoadedExecutable_GetExecutable(&get));
  auto count =
      make_args<PJRT_Executable_NumOutputs_Args>(PJRT_Executable_NumOutputs_Args_STRUCT_SIZE);
  count.executable = get.executable;
  drop(target->PJRT_Executable_NumOutputs(&count));
  auto destroy = make_args<PJRT_Executable_Destroy_Args>(PJRT_Executable_Destroy_Args_STRUCT_SIZE);
  destroy.executable = get.executable;
  drop(target->PJRT_Executable_Destroy(&destroy));
  state().set_num_outputs(executable, count.num_outputs);
  return nullptr;
}

PJRT_Error* client_compile(PJRT_Client_Compile_Args* args) {
  if (const Verdict verdict = state().enter(Point::Compile); verdict.error != nullptr) {
    return verdict.error;
  }
  PJRT_Error* error = target->PJRT_Client_Compile(args);
  return adopt(args->executable, error);
}

PJRT_Error* deserialize_and_load(PJRT_Executable_DeserializeAndLoad_Args* args) {
  if (const Verdict verdict = state().enter(Point::Deserialize); verdict.error != nullptr) {
    return verdict.error;
  }
  PJRT_Error* error = target->PJRT_Executable_DeserializeAndLoad(args);
  return adopt(args->loaded_executable, error);
}

PJRT_Error* loaded_executable_destroy(PJRT_LoadedExecutable_Destroy_Args* args) {
  state().destroyed(Kind::LoadedExecutables);
  return target->PJRT_LoadedExecutable_Destroy(args);
}

PJRT_Error* get_executable(PJRT_LoadedExecutable_GetExecutable_Args* args) {
  if (const Verdict verdict = state().enter(Point::GetExecutable); verdict.error != nullptr) {
    return verdict.error;
  }
  PJRT_Error* error = target->PJRT_LoadedExecutable_GetExecutable(args);
  state().created(Kind::Executables, error == nullptr);
  return error;
}

PJRT_Error* executable_destroy(PJRT_Executable_Destroy_Args* args) {
  state().destroyed(Kind::Executables);
  return target->PJRT_Executable_Destroy(args);
}

PJRT_Error* compile(PJRT_Compile_Args* args) {
  if (const Verdict verdict = state().enter(Point::Compile); verdict.error != nullptr) {
    return verdict.error;
  }
  PJRT_Error* error = target->PJRT_Compile(args);
  state().created(Kind::Executables, error == nullptr);
  return error;
}

PJRT_Error* num_outputs(PJRT_Executable_NumOutputs_Args* args) {
  if (const Verdict verdict = state().enter(Point::NumOutputs); verdict.error != nullptr) {
    return verdict.error;
  }
  return target->PJRT_Executable_NumOutputs(args);
}

PJRT_Error* serialize(PJRT_Executable_Serialize_Args* args) {
  if (const Verdict verdict = state().enter(Point::Serialize); verdict.error != nullptr) {
    return verdict.error;
  }
  return target->PJRT_Executable_Serialize(args);
}

PJRT_Error* execute(PJRT_LoadedExecutable_Execute_Args* args) {
  const Verdict verdict = state().enter(Point::Execute);
  if (verdict.error != nullptr) {
    return verdict.error;
  }
  if (PJRT_Error* error = target->PJRT_LoadedExecutable_Execute(args)) {
    return error;
  }
  state().created(Kind::Buffers,
                  static_cast<int64_t>(args->num_devices * state().num_outputs(args->executable)));
  if (args->device_complete_events != nullptr) {
    for (size_t i = 0; i < args->num_devices; ++i) {
      hand_out(args->device_complete_events[i], verdict);
    }
  }
  return nullptr;
}

// ------------------------------------------ buffers ---------------------------------------------

PJRT_Error* buffer_from_host(PJRT_Client_BufferFromHostBuffer_Args* args) {
  const Verdict verdict = state().enter(Point::BufferFromHost);
  if (verdict.error != nullptr) {
    return verdict.error;
  }
  if (PJRT_Error* error = target->PJRT_Client_BufferFromHostBuffer(args)) {
    return error;
  }
  state().created(Kind::Buffers);
  hand_out(args->done_with_host_buffer, verdict);
  return nullptr;
}

PJRT_Error* create_view(PJRT_Client_CreateViewOfDeviceBuffer_Args* args) {
  if (const Verdict verdict = state().enter(Point::View); verdict.error != nullptr) {
    return verdict.error;
  }
  PJRT_Error* error = target->PJRT_Client_CreateViewOfDeviceBuffer(args);
  state().created(Kind::Buffers, error == nullptr);
  return error;
}

PJRT_Error* copy_to_device(PJRT_Buffer_CopyToDevice_Args* args) {
  if (const Verdict verdict = state().enter(Point::CopyToDevice); verdict.error != nullptr) {
    return verdict.error;
  }
  PJRT_Error* error = target->PJRT_Buffer_CopyToDevice(args);
  state().created(Kind::Buffers, error == nullptr);
  return error;
}

PJRT_Error* buffer_destroy(PJRT_Buffer_Destroy_Args* args) {
  state().destroyed(Kind::Buffers);
  return target->PJRT_Buffer_Destroy(args);
}

PJRT_Error* to_host(PJRT_Buffer_ToHostBuffer_Args* args) {
  const Verdict verdict = state().enter(Point::ToHost);
  if (verdict.error != nullptr) {
    return verdict.error;
  }
  if (PJRT_Error* error = target->PJRT_Buffer_ToHostBuffer(args)) {
    return error;
  }
  if (args->dst != nullptr) {
    hand_out(args->event, verdict);
  }
  return nullptr;
}

PJRT_Error* ready_event(PJRT_Buffer_ReadyEvent_Args* args) {
  const Verdict verdict = state().enter(Point::ReadyEvent);
  if (verdict.error != nullptr) {
    return verdict.error;
  }
  if (PJRT_Error* error = target->PJRT_Buffer_ReadyEvent(args)) {
    return error;
  }
  hand_out(args->event, verdict);
  return nullptr;
}

// ------------------------------------------- table ----------------------------------------------

const PJRT_Api* load_target() {
  const char* path = std::getenv("FAULT_TARGET");
  void* library = path != nullptr ? ::dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
  void* symbol = library != nullptr ? ::dlsym(library, "GetPjrtApi") : nullptr;
  if (symbol == nullptr) {
    std::fprintf(stderr, "fault plugin: FAULT_TARGET is not a PJRT plugin: %s\n",
                 path != nullptr ? path : "(not set)");
    return nullptr;
  }
  return reinterpret_cast<const PJRT_Api* (*)()>(symbol)();
}

size_t table_size() {
  size_t size = std::min<size_t>(target->struct_size, PJRT_Api_STRUCT_SIZE);
  if (const char* text = std::getenv("FAULT_API_SIZE")) {
    size = std::min(size, static_cast<size_t>(std::atoll(text)));
  }
  return size;
}

void override_functions(PJRT_Api& api) {
  api.PJRT_Error_Destroy = error_destroy;
  api.PJRT_Error_Message = error_message;
  api.PJRT_Error_GetCode = error_get_code;
  api.PJRT_Event_Destroy = event_destroy;
  api.PJRT_Event_IsReady = event_is_ready;
  api.PJRT_Event_Error = event_error;
  api.PJRT_Event_Await = event_await;
  api.PJRT_Event_OnReady = event_on_ready;
  api.PJRT_Client_Create = client_create;
  api.PJRT_Client_Destroy = client_destroy;
  api.PJRT_Client_Compile = client_compile;
  api.PJRT_Client_BufferFromHostBuffer = buffer_from_host;
  api.PJRT_Client_CreateViewOfDeviceBuffer = create_view;
  api.PJRT_Compile = compile;
  api.PJRT_Executable_DeserializeAndLoad = deserialize_and_load;
  api.PJRT_Executable_Destroy = executable_destroy;
  api.PJRT_Executable_NumOutputs = num_outputs;
  api.PJRT_Executable_Serialize = serialize;
  api.PJRT_LoadedExecutable_Destroy = loaded_executable_destroy;
  api.PJRT_LoadedExecutable_GetExecutable = get_executable;
  api.PJRT_LoadedExecutable_Execute = execute;
  api.PJRT_Buffer_CopyToDevice = copy_to_device;
  api.PJRT_Buffer_Destroy = buffer_destroy;
  api.PJRT_Buffer_ToHostBuffer = to_host;
  api.PJRT_Buffer_ReadyEvent = ready_event;
}

const PJRT_Api* make_table() {
  target = load_target();
  if (target == nullptr) {
    return nullptr;
  }
  static PJRT_Api api{};
  std::memcpy(&api, target, std::min<size_t>(target->struct_size, sizeof(api)));
  override_functions(api);
  api.struct_size = table_size();
  if (const char* major = std::getenv("FAULT_API_MAJOR")) {
    api.pjrt_api_version.major_version = std::atoi(major);
  }
  return &api;
}

}  // namespace
}  // namespace fault

FAULT_EXPORT const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api* api = fault::make_table();
  return api;
}

FAULT_EXPORT bool fault_set(const char* point, int64_t nth, int action, int64_t value) {
  return fault::state().set(point, nth, action, value);
}

FAULT_EXPORT void fault_clear() { fault::state().clear(); }

FAULT_EXPORT int64_t fault_live(const char* kind) { return fault::state().live(kind); }

FAULT_EXPORT int64_t fault_calls(const char* point) { return fault::state().calls(point); }
