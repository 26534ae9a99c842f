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
#include <string>

namespace torch_tpu::aten {
namespace {

/// Above this many elements a call that the CPU takes would take it too long: after an error, and
/// for a call that may be right.
constexpr int64_t kMostElements = int64_t{1} << 28;
constexpr int64_t kMostElementsToAsk = int64_t{1} << 20;

constexpr size_t kLarge = size_t{1} << 20;  // bytes

class NoWarnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

/// Large ones cannot be resized: calloc gives them as pages that take no memory until they are
/// written.
at::Tensor cpu_zeros(const at::Tensor& like) {
  const size_t bytes =
      at::detail::computeStorageNbytes(like.sizes(), like.strides(), like.dtype().itemsize());
  if (bytes <= kLarge) {
    const auto options = at::TensorOptions(like.scalar_type());
    return at::empty_strided(like.sizes(), like.strides(), options).zero_();
  }
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

/// Zeros stand for indices, but not for the pivots of LAPACK: those begin at 1.
bool is_pivots(const c10::OperatorHandle& op, size_t argument) {
  const std::string& name = op.schema().arguments().at(argument).name();
  return name == "pivots" || name == "LU_pivots";
}

int64_t elements(c10::ArrayRef<c10::IValue> values) {
  int64_t count = 0;
  for (const c10::IValue& value : values) count += elements(value);
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

std::optional<torch::jit::Stack> run_on_cpu(const c10::OperatorHandle& op,
                                            c10::ArrayRef<c10::IValue> arguments) {
  if (!op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) return std::nullopt;
  if (elements(arguments) > kMostElements) return std::nullopt;
  NoWarnings handler;
  const c10::WarningUtils::WarningHandlerGuard no_warnings(&handler);  // the call itself warns
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  StandIns on_cpu(c10::DeviceType::CPU);
  torch::jit::Stack stack;
  try {
    for (size_t i = 0; i < arguments.size(); ++i) {
      stack.push_back(on_cpu.of(arguments[i]));
      if (is_pivots(op, i)) stack.back().toTensor().fill_(1);
    }
  } catch (const std::bad_alloc&) {
    return std::nullopt;
  }
  try {
    op.callBoxed(&stack);
  } catch (const std::runtime_error& error) {  // of a number that does not fit its dtype
    TORCH_CHECK(false, error.what());
  }
  return stack;
}

void raise_cpu_error(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  run_on_cpu(op, arguments);
}

bool cpu_refuses(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  try {
    raise_cpu_error(op, arguments);
  } catch (...) {
    return true;
  }
  return false;
}

void ask_cpu(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments) {
  if (elements(arguments) > kMostElementsToAsk) return;
  try {
    raise_cpu_error(op, arguments);
  } catch (const c10::Error& error) {
    // The device has more dtypes than the CPU's kernels, and finds wrong indices itself.
    for (const char* words : {"not implemented for '", "out of bounds", "not in the valid range"}) {
      if (error.msg().find(words) != std::string::npos) return;
    }
    throw;
  }
}

}  // namespace torch_tpu::aten
