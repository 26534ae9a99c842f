// What decides the program of a call, in the user's terms.
#pragma once

#include <ATen/core/ivalue.h>

#include <memory>

#include "aten/call.h"
#include "engine/trace.h"

namespace torch_tpu::aten {

/// The axes of the call's key. Made where a program is made, and never on a hit.
std::shared_ptr<const engine::CallInfo> call_info(const Form& form, const CallKey& key,
                                                  c10::ArrayRef<c10::IValue> arguments);

}  // namespace torch_tpu::aten
