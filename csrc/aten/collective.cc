// Schemas and shapes of the operators between devices. `devices` are the numbers of all devices,
// group after group; a group has `group_size`.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

at::Tensor with_first(const at::Tensor& x, int64_t first) {
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes[0] = first;
  return at::empty(sizes, x.options());
}

at::Tensor all_gather_meta(const at::Tensor& x, at::IntArrayRef, int64_t group_size) {
  return with_first(x, x.size(0) * group_size);
}

at::Tensor all_reduce_meta(const at::Tensor& x, c10::string_view, at::IntArrayRef, int64_t) {
  return at::empty(x.sizes(), x.options());
}

at::Tensor reduce_scatter_meta(const at::Tensor& x, c10::string_view, at::IntArrayRef,
                               int64_t group_size) {
  TORCH_CHECK(x.size(0) % group_size == 0, "reduce_scatter: ", x.size(0),
              " rows cannot be dealt out to ", group_size, " devices");
  return with_first(x, x.size(0) / group_size);
}

at::Tensor all_to_all_meta(const at::Tensor& x, at::IntArrayRef, int64_t group_size) {
  TORCH_CHECK(x.size(0) % group_size == 0, "all_to_all: ", x.size(0),
              " rows cannot be dealt out to ", group_size, " devices");
  return at::empty(x.sizes(), x.options());
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def("all_gather(Tensor x, int[] devices, int group_size) -> Tensor");
  m.def("all_reduce(Tensor x, str reduction, int[] devices, int group_size) -> Tensor");
  m.def("reduce_scatter(Tensor x, str reduction, int[] devices, int group_size) -> Tensor");
  m.def("all_to_all(Tensor x, int[] devices, int group_size) -> Tensor");
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) {
  m.impl("all_gather", all_gather_meta);
  m.impl("all_reduce", all_reduce_meta);
  m.impl("reduce_scatter", reduce_scatter_meta);
  m.impl("all_to_all", all_to_all_meta);
}

}  // namespace
}  // namespace torch_tpu::aten
