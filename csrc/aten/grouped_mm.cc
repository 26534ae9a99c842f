// torch.nn.functional.grouped_mm as one program. PyTorch's own reads the ends of the groups on the
// host.
#include <ATen/core/Tensor.h>
#include <ATen/ops/_grouped_mm_compositeexplicitautograd_dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <torch/library.h>

#include <algorithm>

#include "aten/native.h"

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;

/// Two of a product's sizes must fit, and one of the offsets.
bool fits(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends) {
  if (a.dim() == 2 && b.dim() == 2) return a.size(1) == b.size(0);
  if (a.size(-1) != b.size(-2)) return false;
  return ends.size(0) == (a.dim() == 3 ? a.size(0) : b.size(0));
}

/// PyTorch's kernels want matrices whose rows, or columns, begin at multiples of 16 bytes; it
/// raises for others. They have no float64, which needs no such thing here.
bool is_aligned(const at::Tensor& matrix) {
  if (matrix.scalar_type() == at::kDouble) return true;
  const int64_t align = 16 / static_cast<int64_t>(matrix.element_size());
  const auto goes_by = [&](int64_t inner, int64_t outer) {
    return matrix.stride(inner) == 1 &&
           matrix.stride(outer) >= std::max<int64_t>(1, matrix.size(inner)) &&
           matrix.stride(outer) % align == 0;
  };
  return goes_by(-1, -2) || goes_by(-2, -1);
}

bool is_served(const at::Tensor& a, const at::Tensor& b, const OptionalTensor& ends,
               const OptionalTensor& bias) {
  const int64_t dims = a.dim() + b.dim();
  if (a.dim() < 2 || b.dim() < 2 || (dims != 4 && dims != 5)) return false;
  if (!ends || !ends->defined() || ends->dim() != 1 || (bias && bias->defined())) return false;
  for (const at::Tensor& tensor : {a, b, *ends}) {
    if (!tensor.device().is_privateuseone()) return false;
  }
  return ends->scalar_type() == at::kInt && at::isFloatingType(a.scalar_type()) &&
         a.scalar_type() == b.scalar_type() && is_aligned(a) && is_aligned(b) && fits(a, b, *ends);
}

std::vector<int64_t> result_sizes(const at::Tensor& a, const at::Tensor& b,
                                  const at::Tensor& ends) {
  if (a.dim() == 2 && b.dim() == 2) return {ends.size(0), a.size(0), b.size(1)};
  return a.dim() == 2 ? std::vector<int64_t>{a.size(0), b.size(2)}
                      : std::vector<int64_t>{a.size(1), b.size(1)};
}

at::Tensor grouped_mm(const at::Tensor& a, const at::Tensor& b, const OptionalTensor& ends,
                      const OptionalTensor& bias, std::optional<at::ScalarType> dtype) {
  const bool same_dtype = !dtype || *dtype == a.scalar_type();
  if (!same_dtype || !is_served(a, b, ends, bias)) {
    return at::compositeexplicitautograd::_grouped_mm(a, b, ends, bias, dtype);
  }
  at::Tensor product = native("torch_tpu::grouped_mm", a, b, *ends)[0].toTensor();
  // PyTorch's rows begin at multiples of 16 bytes.
  const int64_t align = 16 / static_cast<int64_t>(a.element_size());
  const int64_t n = product.size(-1), row = (n + align - 1) / align * align;
  if (row == n) return product;
  std::vector<int64_t> strides{row, 1};
  if (product.dim() == 3) strides.insert(strides.begin(), product.size(1) * row);
  at::Tensor out = at::empty_strided(product.sizes(), strides, product.options());
  out.copy_(product);
  return out;
}

at::Tensor grouped_mm_meta(const at::Tensor& a, const at::Tensor& b, const at::Tensor& ends) {
  return at::empty(result_sizes(a, b, ends), a.options());
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def("grouped_mm(Tensor a, Tensor b, Tensor ends) -> Tensor");
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) { m.impl("grouped_mm", grouped_mm_meta); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("_grouped_mm", grouped_mm); }

}  // namespace
}  // namespace torch_tpu::aten
