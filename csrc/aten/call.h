// One call of a form: its key, its storages and its run-time numbers, gathered from the arguments
// on the stack.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include <span>

#include "aten/form.h"
#include "engine/storage.h"
#include "lowering/view.h"

namespace torch_tpu::aten {

/// The first pass over the arguments, on every call. Allocates nothing in usual cases.
class CallKey {
 public:
  /// Reads the form's arguments, the topmost of the stack. Throws on tensors of other devices.
  CallKey(const Form& form, const torch::jit::Stack& stack);

  std::span<const uint64_t> words() const { return {words_.data(), words_.size()}; }
  std::span<engine::Storage* const> slots() const { return {slots_.data(), slots_.size()}; }
  /// Run-time starts of all views, in order.
  std::span<const int64_t> starts() const { return {starts_.data(), starts_.size()}; }
  /// Of products of float32, as the key has it. Highest for operators that do not ask.
  stablehlo::Precision precision() const { return precision_; }
  /// Index of the device, or -1 if no argument is a tensor of it.
  int device() const { return device_; }
  /// Some storage is used by two views, at least one of them written: they may overlap.
  bool may_overlap() const { return may_overlap_; }
  /// A list of tensors holds a 0-d CPU tensor.
  bool number_in_list() const { return number_in_list_; }

 private:
  void add(const c10::IValue& value, const FormArg& arg);
  void add_tensor(const at::Tensor& tensor, bool written);
  void add_scalar(const c10::IValue& value, const FormArg& arg);
  int slot_of(engine::Storage& storage, bool written, bool& is_new);
  void push(uint64_t word) { words_.push_back(word); }
  void push_text(const std::string& text);

  const Form& form_;
  c10::SmallVector<uint64_t, 160> words_;
  c10::SmallVector<engine::Storage*, 12> slots_;
  c10::SmallVector<int64_t, 24> starts_;
  uint64_t written_slots_ = 0;  // bit per slot, the first 64
  stablehlo::Precision precision_ = stablehlo::Precision::Highest;
  int device_ = -1;
  bool may_overlap_ = false;
  bool number_in_list_ = false;
};

/// How a device tensor is seen: its storage's base and its view plan. Retypes storages that hold
/// raw bytes.
struct SeenTensor {
  engine::Storage* storage = nullptr;
  lowering::ViewPlan plan;
  stablehlo::DType dtype = stablehlo::DType::F32;
};
void see(const at::Tensor& tensor, SeenTensor& seen);

/// An int or (concrete) SymInt.
int64_t int_of(const c10::IValue& value);

/// True for the 0-d CPU tensors that take part in operators as numbers.
inline bool is_host_scalar(const at::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.dim() == 0;
}

}  // namespace torch_tpu::aten
