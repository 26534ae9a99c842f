// torch.autocast("tpu"): which operators compute in the lower precision and which in f32. The lists
// are PyTorch's own for accelerators: matrix products and convolutions go down; exponentials,
// norms, sums, softmax and losses go to f32; operators of several tensors take the widest type.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

// PyTorch's macros below say at::... with names that they expect in this namespace.
namespace at::autocast {
namespace {

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define TORCH_TPU_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
  AT_FORALL_LOWER_PRECISION_FP(TORCH_TPU_KERNEL)
#undef TORCH_TPU_KERNEL

#define TORCH_TPU_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
  AT_FORALL_FP32(TORCH_TPU_KERNEL)
  // CUDA refuses this one, for fear of float16's range; in f32 there is nothing to fear.
  TORCH_TPU_KERNEL(binary_cross_entropy)
#undef TORCH_TPU_KERNEL

#define TORCH_TPU_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
  AT_FORALL_FP32_SET_OPT_DTYPE(TORCH_TPU_KERNEL)
#undef TORCH_TPU_KERNEL

  AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)

#define TORCH_TPU_KERNEL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
  AT_FORALL_PROMOTE(TORCH_TPU_KERNEL)
  TORCH_TPU_KERNEL(cat)
  TORCH_TPU_KERNEL(stack)
#undef TORCH_TPU_KERNEL
}

}  // namespace
}  // namespace at::autocast
