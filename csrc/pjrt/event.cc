#include "pjrt/event.h"

#include <memory>

#include "pjrt/api_call.h"

namespace torch_tpu::pjrt {
namespace {

struct PendingCallback {
  const PJRT_Api* api;
  Event::Callback callback;
};

void run_callback(PJRT_Error* error, void* arg) {
  const std::unique_ptr<PendingCallback> pending(static_cast<PendingCallback*>(arg));
  // The caller is C code of the plugin: nothing may be thrown through it.
  try {
    if (error == nullptr) {
      pending->callback(nullptr);
    } else {
      const Error taken = take_error(pending->api, error);
      pending->callback(&taken);
    }
  } catch (...) {
  }
}

}  // namespace

void Event::reset() noexcept {
  if (event_ != nullptr) {
    TORCH_TPU_PJRT_ARGS(PJRT_Event_Destroy_Args, args);
    args.event = release();
    call_destroy<&PJRT_Api::PJRT_Event_Destroy>(api_, args);
  }
}

void Event::await() const {
  if (event_ != nullptr) {
    TORCH_TPU_PJRT_ARGS(PJRT_Event_Await_Args, args);
    args.event = event_;
    call<&PJRT_Api::PJRT_Event_Await>(api_, args);
  }
}

bool Event::is_ready() const {
  if (event_ == nullptr) {
    return true;
  }
  TORCH_TPU_PJRT_ARGS(PJRT_Event_IsReady_Args, args);
  args.event = event_;
  call<&PJRT_Api::PJRT_Event_IsReady>(api_, args);
  return args.is_ready;
}

void Event::on_ready(Callback callback) const {
  auto pending = std::make_unique<PendingCallback>(PendingCallback{api_, std::move(callback)});
  if (event_ == nullptr) {
    run_callback(nullptr, pending.release());
    return;
  }
  TORCH_TPU_PJRT_ARGS(PJRT_Event_OnReady_Args, args);
  args.event = event_;
  args.callback = run_callback;
  args.user_arg = pending.get();
  call<&PJRT_Api::PJRT_Event_OnReady>(api_, args);
  // Only now it belongs to the plugin (it may even be gone): had the call failed, it would be ours.
  static_cast<void>(pending.release());
}

}  // namespace torch_tpu::pjrt
