// Running operators by their lowerings, for the dispatcher and for the torch-side kernels beside
// it.
#pragma once

#include <ATen/core/stack.h>

#include <string>
#include <utility>

#include "aten/form.h"

namespace torch_tpu::aten {

/// Runs one form of an operator on the stack (arguments in, results out), as a dispatcher kernel
/// does.
void run_form(const Form& form, torch::jit::Stack& stack);

/// Runs the operator "aten::add_.Tensor" by its lowering, even where a torch-side kernel of ours is
/// registered for it.
void run_native(const std::string& name, torch::jit::Stack& stack);

/// The same with the arguments given one by one, in the order of the schema; gives the results.
template <typename... Args>
torch::jit::Stack native(const char* name, Args&&... args) {
  torch::jit::Stack stack;
  torch::jit::push(stack, std::forward<Args>(args)...);
  run_native(name, stack);
  return stack;
}

/// A kernel for an out= overload of a structured operator whose functional overload ("aten::f" of
/// "aten::f.name") has a torch-side kernel: computes it and copies the results.
void run_through_functional(const c10::OperatorHandle& op, torch::jit::Stack* stack);

/// Registers every form of every operator of the table with the dispatcher, except those that have
/// a torch-side kernel of ours. Called once, when all of the library's static registrations have
/// run.
void register_kernels();

}  // namespace torch_tpu::aten
