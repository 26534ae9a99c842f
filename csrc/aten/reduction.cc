// Reductions for the dispatcher: one that reads its result on the host, and the result types of
// those for which PyTorch has no meta kernel.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/all.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/eq.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

using Two = std::tuple<at::Tensor, at::Tensor>;

// ---- PrivateUse1

bool equal(const at::Tensor& self, const at::Tensor& other) {
  TORCH_CHECK(self.device() == other.device(),
              "Cannot compare two tensors on different devices. Got: ", self.device(), " and ",
              other.device());
  TORCH_CHECK(self.scalar_type() == other.scalar_type(), "Expected object of data type ",
              self.scalar_type(), " but got data type ", other.scalar_type(),
              " for argument 'other' in call to equal");
  if (!self.sizes().equals(other.sizes())) return false;
  if (self.numel() == 0) return true;
  return at::all(at::eq(self, other)).item<bool>();
}

// ---- Meta

Two aminmax_meta(const at::Tensor& self) {
  return {at::empty({}, self.options()), at::empty({}, self.options())};
}

Two aminmax_dim_meta(const at::Tensor& self, int64_t dim, bool keepdim) {
  c10::SymDimVector sizes(self.sym_sizes().begin(), self.sym_sizes().end());
  if (!sizes.empty()) {
    const int64_t at = at::maybe_wrap_dim(dim, self.dim());
    if (keepdim) {
      sizes[at] = 1;
    } else {
      sizes.erase(sizes.begin() + at);
    }
  }
  return {at::empty_symint(sizes, self.options()), at::empty_symint(sizes, self.options())};
}

at::Tensor logcumsumexp_meta(const at::Tensor& self, int64_t) { return at::empty_like(self); }

at::Tensor masked_softmax_meta(const at::Tensor& self, const at::Tensor& mask,
                               std::optional<int64_t>, std::optional<int64_t>) {
  TORCH_CHECK(mask.scalar_type() == at::kBool, "Mask should be a boolean tensor");
  return at::empty_like(self);
}

at::Tensor masked_softmax_backward_meta(const at::Tensor& grad, const at::Tensor&,
                                        const at::Tensor&, std::optional<int64_t>) {
  return at::empty_like(grad);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("equal", equal); }

TORCH_LIBRARY_IMPL(aten, Meta, m) {
  m.impl("_aminmax", aminmax_meta);
  m.impl("_aminmax.dim", aminmax_dim_meta);
  m.impl("_logcumsumexp", logcumsumexp_meta);
  m.impl("_masked_softmax", masked_softmax_meta);
  m.impl("_masked_softmax_backward", masked_softmax_backward_meta);
}

}  // namespace
}  // namespace torch_tpu::aten
