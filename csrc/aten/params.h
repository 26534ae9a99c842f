// The run-time numbers of a call, as the words of its program's parameter operand.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/ivalue.h>

#include <optional>
#include <span>
#include <utility>

#include "aten/form.h"
#include "engine/program.h"

namespace torch_tpu::aten {

/// Writes program.param_words words. `random` is the (seed, offset) that the generator reserved.
void write_params(const Form& form, const engine::Program& program,
                  c10::ArrayRef<c10::IValue> arguments, std::span<const int64_t> starts,
                  std::pair<uint64_t, uint64_t> random, uint32_t* words);

std::optional<at::Generator> generator_argument(const Form& form,
                                                c10::ArrayRef<c10::IValue> arguments);

}  // namespace torch_tpu::aten
