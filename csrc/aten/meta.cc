#include "aten/meta.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <stdexcept>

namespace torch_tpu::aten {
namespace {

/// Above this many elements a call that the CPU takes would take it too long.
constexpr int64_t kMostElements = int64_t{1} << 28;

/// calloc gives large blocks as pages that take no memory until they are written.
at::Tensor cpu_zeros(const at::Tensor& like) {
  const size_t bytes =
      at::detail::computeStorageNbytes(like.sizes(), like.strides(), like.dtype().itemsize());
  void* memory = std::calloc(std::max<size_t>(bytes, 1), 1);
  if (memory == nullptr) throw std::bad_alloc();
  return at::from_blob(memory, like.sizes(), like.strides(), std::free,
                       at::TensorOptions(like.scalar_type()));
}

at::Tensor meta_tensor(const at::Tensor& like) {
  return at::empty_strided(like.sizes(), like.strides(),
                           like.options().device(c10::DeviceType::Meta));
}

int64_t elements(const c10::IValue& value) {
  int64_t count = 0;
  if (value.isTensor()) {
    if (value.toTensor().defined()) count = value.toTensor().numel();
  } else if (value.isTensorList() || value.isOptionalTensorList()) {
    for (const c10::IValue& element : value.toListRef()) count += elements(element);
  }
  return count;
}

}  // namespace

at::Tensor StandIns::of(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_privateuseone()) return tensor;
  auto [it, is_new] = known_.try_emplace(tensor.unsafeGetTensorImpl());
  if (is_new) {
    at::Tensor out = device_ == c10::DeviceType::Meta ? meta_tensor(tensor) : cpu_zeros(tensor);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      out.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    if (tensor.is_conj()) out._set_conj(true);
    if (tensor.is_neg()) out._set_neg(true);
    it->second = std::move(out);
  }
  return it->second;
}

c10::IValue StandIns::of(const c10::IValue& value) {
  if (value.isTensor()) return of(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& element : value.toListRef()) list.push_back(of(element.toTensor()));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isNone()) {
        list.push_back(std::nullopt);
      } else {
        list.push_back(of(element.toTensor()));
      }
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().is_privateuseone()) return c10::Device(device_);
  if (value.isGenerator()) {  // a generator of another device is refused
    if (device_ == c10::DeviceType::Meta) return {};
    return at::Generator(at::detail::createCPUGenerator());
  }
  return value;
}

std::optional<torch::jit::Stack> run_on_meta(const c10::OperatorHandle& op,
                                             c10::ArrayRef<c10::IValue> arguments) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  StandIns on_meta(c10::DeviceType::Meta);
  torch::jit::Stack stack;
  for (const c10::IValue& argument : arguments) stack.push_back(on_meta.of(argument));
  try {
    op.callBoxed(&stack);
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  }
  return stack;
}

void raise_cpu_error(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return;
  int64_t count = 0;
  for (const c10::IValue& argument : arguments) count += elements(argument);
  if (count > kMostElements) return;
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  StandIns on_cpu(c10::DeviceType::CPU);
  torch::jit::Stack stack;
  try {
    for (const c10::IValue& argument : arguments) stack.push_back(on_cpu.of(argument));
  } catch (const std::bad_alloc&) {
    return;
  }
  try {
    op.callBoxed(&stack);
  } catch (const std::runtime_error& error) {  // of a number that does not fit its dtype
    TORCH_CHECK(false, error.what());
  }
}

}  // namespace torch_tpu::aten
