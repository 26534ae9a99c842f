// Checks of PyTorch's CPU kernels that its meta kernels leave out.
#pragma once

#include <ATen/core/ivalue.h>

#include "aten/form.h"

namespace torch_tpu::aten {

/// Throws if the CPU kernel would refuse these arguments, and the meta kernel would not. Called
/// where a program is made: a check may look at what is part of the key only (aten/call.h).
void check_arguments(const Form& form, c10::ArrayRef<c10::IValue> arguments);

}  // namespace torch_tpu::aten
