// Rows of different lengths: the indices of compressed matrices, and jagged batches as padded ones.
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

at::TensorOptions longs(const at::Tensor& like) { return like.options().dtype(at::kLong); }

at::ScalarType index_dtype(bool int32) { return int32 ? at::kInt : at::kLong; }

// ---- indices of compressed matrices

/// Element i is the number of entries in rows before i.
at::Tensor coo_to_csr(const at::Tensor& self, int64_t size, bool int32) {
  TORCH_CHECK(self.dim() <= 1, "Input is supposed to be a vector, but got ", self.dim(),
              " dimensional tensor.");
  if (self.numel() == 0) return at::zeros({size + 1}, self.options().dtype(index_dtype(int32)));
  const at::Tensor rows = at::arange(size + 1, self.options());
  return at::searchsorted(self, rows, int32);
}

at::Tensor& coo_to_csr_out(const at::Tensor& self, int64_t size, bool int32, at::Tensor& out) {
  return write_out(coo_to_csr(self, size, int32), out);
}

/// Entry i lies in the last row that begins at or before i.
at::Tensor csr_to_coo(const at::Tensor& crow, const at::Tensor& col, bool int32, bool transpose) {
  TORCH_CHECK(crow.dim() == col.dim(),
              "crow_indices and col_indices are supposed to have the same dimensionality, but got ",
              crow.dim(), " and ", col.dim(), " dimensional tensors, respectively.");
  const at::ScalarType dtype = index_dtype(int32);
  const int64_t entries = col.size(-1), size = crow.size(-1);
  std::vector<at::Tensor> indices;
  const at::Tensor place = at::arange(entries, crow.options()).expand(col.sizes()).contiguous();
  const at::Tensor ends = crow.narrow(-1, 1, size - 1).contiguous();
  at::Tensor row = size > 1 ? at::searchsorted(ends, place, int32, /*right=*/true)
                            : at::zeros(col.sizes(), crow.options().dtype(dtype));
  row = row.reshape({-1});
  const at::Tensor column = col.reshape({-1}).to(dtype);
  for (int64_t d = 0; d + 1 < col.dim(); ++d) {
    std::vector<int64_t> along(col.dim(), 1);
    along[d] = col.size(d);
    const at::Tensor batch = at::arange(col.size(d), crow.options().dtype(dtype));
    indices.push_back(batch.view(along).expand(col.sizes()).reshape({-1}));
  }
  indices.push_back(transpose ? column : row);
  indices.push_back(transpose ? row : column);
  return at::stack(indices);
}

at::Tensor& csr_to_coo_out(const at::Tensor& crow, const at::Tensor& col, bool int32,
                           bool transpose, at::Tensor& out) {
  return write_out(csr_to_coo(crow, col, int32, transpose), out);
}

// ---- jagged batches: rows [total, ...] and the offsets [batch + 1] at which samples begin

const at::Tensor& only_offsets(at::TensorList offsets) {
  TORCH_CHECK(offsets.size() == 1, "only one jagged dimension is supported, but got ",
              offsets.size());
  return offsets[0];
}

/// [1, n] -> [1, n, 1, ...] that broadcasts against rows with the dimensions of `like` behind.
at::Tensor over_rows(const at::Tensor& mask, int64_t dims) {
  at::Tensor out = mask;
  while (out.dim() < dims) out = out.unsqueeze(-1);
  return out;
}

at::Tensor jagged_to_padded(const at::Tensor& values, at::TensorList all_offsets,
                            c10::SymIntArrayRef max_lengths, double padding) {
  const at::Tensor offsets = only_offsets(all_offsets).to(at::kLong);
  const int64_t most = max_lengths.at(0).guard_int(__FILE__, __LINE__);
  const int64_t batch = offsets.size(0) - 1, total = values.size(0);
  auto sizes = values.sizes().vec();
  sizes[0] = most;
  sizes.insert(sizes.begin(), batch);
  if (total == 0) return at::zeros(sizes, values.options()).fill_(padding);
  const at::Tensor place =
      at::arange(most, longs(values)).unsqueeze(0).add(offsets.narrow(0, 0, batch).unsqueeze(1));
  const at::Tensor inside = place.lt(offsets.narrow(0, 1, batch).unsqueeze(1));
  const at::Tensor rows = values.index_select(0, place.clamp(0, total - 1).reshape({-1}));
  return at::where(over_rows(inside, values.dim() + 1), rows.view(sizes), at::Scalar(padding))
      .to(values.scalar_type());
}

at::Tensor padded_to_jagged(const at::Tensor& dense, at::TensorList all_offsets,
                            std::optional<c10::SymInt> total_rows) {
  const at::Tensor offsets = only_offsets(all_offsets).to(at::kLong);
  const int64_t total = total_rows ? total_rows->guard_int(__FILE__, __LINE__)
                                   : offsets.select(0, -1).item<int64_t>();
  auto sizes = dense.sizes().vec();
  const int64_t batch = sizes[0], most = sizes[1];
  sizes.erase(sizes.begin());
  sizes[0] = total;
  if (total == 0 || dense.numel() == 0) return at::zeros(sizes, dense.options());
  const auto longest = offsets.diff().max().item<int64_t>();
  TORCH_CHECK(longest <= most, "_padded_dense_to_jagged_forward(): found batch item of length ",
              longest, " when max length specified by padded input is ", most);
  const at::Tensor place = at::arange(total, longs(dense));
  const at::Tensor ends = offsets.narrow(0, 1, batch).contiguous();
  const at::Tensor sample =
      at::searchsorted(ends, place, /*out_int32=*/false, /*right=*/true).clamp_(0, batch - 1);
  const at::Tensor within = place.sub(offsets.index_select(0, sample)).clamp_(0, most - 1);
  return dense.flatten(0, 1).index_select(0, sample.mul(most).add(within));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_convert_indices_from_coo_to_csr", coo_to_csr);
  m.impl("_convert_indices_from_coo_to_csr.out", coo_to_csr_out);
  m.impl("_convert_indices_from_csr_to_coo", csr_to_coo);
  m.impl("_convert_indices_from_csr_to_coo.out", csr_to_coo_out);
  m.impl("_jagged_to_padded_dense_forward", jagged_to_padded);
  m.impl("_padded_dense_to_jagged_forward", padded_to_jagged);
}

}  // namespace
}  // namespace torch_tpu::aten
