#include "aten/meta.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty_strided.h>

namespace torch_tpu::aten {

at::Tensor MetaMap::meta(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_privateuseone()) return tensor;
  auto [it, is_new] = known_.try_emplace(tensor.unsafeGetTensorImpl());
  if (is_new) {
    at::Tensor out = at::empty_strided(tensor.sizes(), tensor.strides(),
                                       tensor.options().device(c10::DeviceType::Meta));
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      out.unsafeGetTensorImpl()->set_wrapped_number(true);
    }
    if (tensor.is_conj()) out._set_conj(true);
    if (tensor.is_neg()) out._set_neg(true);
    it->second = std::move(out);
  }
  return it->second;
}

c10::IValue MetaMap::meta(const c10::IValue& value) {
  if (value.isTensor()) return meta(value.toTensor());
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const c10::IValue& element : value.toListRef()) list.push_back(meta(element.toTensor()));
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const c10::IValue& element : value.toListRef()) {
      if (element.isNone()) {
        list.push_back(std::nullopt);
      } else {
        list.push_back(meta(element.toTensor()));
      }
    }
    return list;
  }
  if (value.isDevice() && value.toDevice().is_privateuseone()) {
    return c10::Device(c10::DeviceType::Meta);
  }
  if (value.isGenerator()) return {};  // a generator of another device is refused; none is needed
  return value;
}

std::optional<torch::jit::Stack> run_on_meta(const c10::OperatorHandle& op,
                                             c10::ArrayRef<c10::IValue> arguments) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  MetaMap map;
  torch::jit::Stack stack;
  for (const c10::IValue& argument : arguments) stack.push_back(map.meta(argument));
  try {
    op.callBoxed(&stack);
  } catch (const c10::NotImplementedError&) {
    return std::nullopt;
  }
  return stack;
}

}  // namespace torch_tpu::aten
