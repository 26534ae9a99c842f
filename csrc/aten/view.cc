// View operators: metadata only, by PyTorch's own functions. The others (slice, transpose, expand,
// ...) are composed of as_strided.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/DimVector.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef sizes) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(sizes));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef sizes,
                      c10::SymIntArrayRef strides, std::optional<c10::SymInt> offset) {
  std::optional<int64_t> start;
  if (offset) start = offset->guard_int(__FILE__, __LINE__);
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(sizes),
                                           C10_AS_INTARRAYREF_SLOW(strides), start);
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef sizes,
                         c10::SymIntArrayRef strides) {
  return at::native::_reshape_alias(self, C10_AS_INTARRAYREF_SLOW(sizes),
                                    C10_AS_INTARRAYREF_SLOW(strides));
}

/// Composed of as_strided by PyTorch as well; the commonest view goes without a second dispatch.
at::Tensor select(const at::Tensor& self, int64_t dim, c10::SymInt position) {
  const int64_t rank = self.dim();
  TORCH_CHECK_INDEX(rank > 0, "select() cannot be applied to a 0-dim tensor.");
  dim = at::maybe_wrap_dim(dim, rank);
  const int64_t index = position.guard_int(__FILE__, __LINE__);
  const int64_t size = self.size(dim);
  TORCH_CHECK_INDEX(index >= -size && index < size, "select(): index ", index,
                    " out of range for tensor of size ", self.sizes(), " at dimension ", dim);
  at::DimVector sizes(self.sizes()), strides(self.strides());
  const int64_t start = self.storage_offset() + (index < 0 ? index + size : index) * strides[dim];
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  return at::native::as_strided_tensorimpl(self, sizes, strides, start);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("select.int", select);
  m.impl("view", view);
  m.impl("as_strided", as_strided);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("unfold", at::native::unfold);
  m.impl("alias", at::native::alias);
  m.impl("view_as_real", at::native::view_as_real);
  m.impl("view_as_complex", at::native::view_as_complex);
  m.impl("is_set_to", at::native::is_set_to);
}

}  // namespace
}  // namespace torch_tpu::aten
