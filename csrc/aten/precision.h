// How exact products of float32 are: the user's settings.
#pragma once

#include <optional>

#include "stablehlo/builder.h"

namespace torch_tpu::aten {

/// The setting in force: that of set_precision(), else PyTorch's own
/// (torch.set_float32_matmul_precision, torch.backends.fp32_precision), else Highest. Of the
/// process, as PyTorch's are, so that the threads of autograd see it. Takes some nanoseconds.
stablehlo::Precision precision();
/// torch.tpu.precision; nothing: PyTorch's settings decide.
void set_precision(std::optional<stablehlo::Precision> precision);
/// What set_precision() has set.
std::optional<stablehlo::Precision> own_precision();

}  // namespace torch_tpu::aten
