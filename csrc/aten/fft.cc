// Fourier transforms for the dispatcher. Permuted views put the dimensions last, so that the
// lowerings know neither which they are nor the order in memory, in which the results are PyTorch's
// CPU's, not that of its meta kernels.
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <vector>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

using Dims = std::vector<int64_t>;

Dims wrapped(const at::Tensor& self, c10::IntArrayRef given) {
  Dims dims(given.begin(), given.end());
  at::maybe_wrap_dims(dims, self.dim());
  return dims;
}

void sort_by_stride(const at::Tensor& self, Dims::iterator begin, Dims::iterator end) {
  std::stable_sort(begin, end,
                   [&](int64_t a, int64_t b) { return self.stride(a) > self.stride(b); });
}

/// All dimensions, outermost in memory first: the others, those transformed, and `last` if that is
/// transformed last whatever its stride.
Dims memory_order(const at::Tensor& self, Dims dims, std::optional<int64_t> last) {
  if (last) std::erase(dims, *last);
  Dims order;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (std::ranges::count(dims, d) == 0 && d != last) order.push_back(d);
  }
  sort_by_stride(self, order.begin(), order.end());
  sort_by_stride(self, dims.begin(), dims.end());
  order.insert(order.end(), dims.begin(), dims.end());
  if (last) order.push_back(*last);
  return order;
}

/// Runs a lowering on the last dimensions of a permuted view and permutes its result back.
template <typename Last>
at::Tensor transform(const char* name, const at::Tensor& self, const Dims& order, size_t rank,
                     int64_t normalization, Last last) {
  const torch::jit::Stack results =
      native(name, self.permute(order), static_cast<int64_t>(rank), normalization, last);
  Dims back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  return results.at(0).toTensor().permute(back);
}

at::Tensor fft_c2c(const at::Tensor& self, c10::SymIntArrayRef dim, int64_t normalization,
                   bool forward) {
  TORCH_CHECK(self.is_complex(), "_fft_c2c: expected a complex tensor, but got ",
              self.scalar_type());
  const Dims dims = wrapped(self, C10_AS_INTARRAYREF_SLOW(dim));
  if (dims.empty()) return self.clone();
  const Dims order = memory_order(self, dims, std::nullopt);
  return transform("torch_tpu::fft_c2c", self, order, dims.size(), normalization, forward);
}

at::Tensor fft_r2c(const at::Tensor& self, c10::IntArrayRef dim, int64_t normalization,
                   bool onesided) {
  TORCH_CHECK(self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble,
              "Only supports floating-point dtypes, but found: ", self.scalar_type());
  TORCH_CHECK(!dim.empty(), "_fft_r2c: expected at least one dimension");
  const Dims dims = wrapped(self, dim);
  const Dims order = memory_order(self, dims, dims.back());
  return transform("torch_tpu::fft_r2c", self, order, dims.size(), normalization, onesided);
}

at::Tensor fft_c2r(const at::Tensor& self, c10::IntArrayRef dim, int64_t normalization,
                   c10::SymInt last_dim_size) {
  TORCH_CHECK(self.is_complex(), "_fft_c2r: expected a complex tensor, but got ",
              self.scalar_type());
  TORCH_CHECK(!dim.empty(), "_fft_c2r: expected at least one dimension");
  const int64_t size = last_dim_size.guard_int(__FILE__, __LINE__);
  const Dims dims = wrapped(self, dim);
  TORCH_CHECK(size >= 1 && self.size(dims.back()) >= size / 2 + 1,
              "_fft_c2r: ", self.size(dims.back()), " values do not give ", size);
  const Dims order = memory_order(self, dims, dims.back());
  return transform("torch_tpu::fft_c2r", self, order, dims.size(), normalization, size);
}

/// A resized `out` has the order in memory of the result.
at::Tensor& write_in_order(const at::Tensor& result, at::Tensor& out) {
  resize_for(result, out, /*structured=*/true);
  return out.copy_(result);
}

at::Tensor& fft_c2c_out(const at::Tensor& self, c10::SymIntArrayRef dim, int64_t normalization,
                        bool forward, at::Tensor& out) {
  return write_in_order(fft_c2c(self, dim, normalization, forward), out);
}

at::Tensor& fft_r2c_out(const at::Tensor& self, c10::IntArrayRef dim, int64_t normalization,
                        bool onesided, at::Tensor& out) {
  return write_in_order(fft_r2c(self, dim, normalization, onesided), out);
}

at::Tensor& fft_c2r_out(const at::Tensor& self, c10::IntArrayRef dim, int64_t normalization,
                        c10::SymInt last_dim_size, at::Tensor& out) {
  return write_in_order(fft_c2r(self, dim, normalization, std::move(last_dim_size)), out);
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def("fft_c2c(Tensor self, int rank, int normalization, bool forward) -> Tensor");
  m.def("fft_r2c(Tensor self, int rank, int normalization, bool onesided) -> Tensor");
  m.def("fft_c2r(Tensor self, int rank, int normalization, int last_dim_size) -> Tensor");
}

// Shapes: contiguous results.

at::Tensor with_last(const at::Tensor& self, int64_t size, at::ScalarType dtype) {
  auto sizes = self.sizes().vec();
  sizes.back() = size;
  return at::empty(sizes, self.options().dtype(dtype));
}

at::Tensor fft_c2c_meta(const at::Tensor& self, int64_t, int64_t, bool) {
  return at::empty(self.sizes(), self.options());
}

at::Tensor fft_r2c_meta(const at::Tensor& self, int64_t, int64_t, bool onesided) {
  const int64_t size = self.size(-1);
  return with_last(self, onesided ? size / 2 + 1 : size, c10::toComplexType(self.scalar_type()));
}

at::Tensor fft_c2r_meta(const at::Tensor& self, int64_t, int64_t, int64_t last_dim_size) {
  return with_last(self, last_dim_size, c10::toRealValueType(self.scalar_type()));
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) {
  m.impl("fft_c2c", fft_c2c_meta);
  m.impl("fft_r2c", fft_r2c_meta);
  m.impl("fft_c2r", fft_c2r_meta);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_fft_c2c", fft_c2c);
  m.impl("_fft_c2c.out", fft_c2c_out);
  m.impl("_fft_r2c", fft_r2c);
  m.impl("_fft_r2c.out", fft_r2c_out);
  m.impl("_fft_c2r", fft_c2r);
  m.impl("_fft_c2r.out", fft_c2r_out);
}

}  // namespace
}  // namespace torch_tpu::aten
