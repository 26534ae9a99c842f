// Running operators by their lowerings, for the dispatcher and for the torch-side kernels beside
// it.
#pragma once

#include <ATen/core/stack.h>

#include <string>

#include "aten/form.h"

namespace torch_tpu::aten {

/// Runs one form of an operator on the stack (arguments in, results out), as a dispatcher kernel
/// does.
void run_form(const Form& form, torch::jit::Stack& stack);

/// Runs the operator "aten::add_.Tensor" by its lowering, even where a torch-side kernel of ours is
/// registered for it.
void run_native(const std::string& name, torch::jit::Stack& stack);

/// Registers every form of every operator of the table with the dispatcher, except those that have
/// a torch-side kernel of ours. Called once, when all of the library's static registrations have
/// run.
void register_kernels();

}  // namespace torch_tpu::aten
