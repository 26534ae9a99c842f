// Reductions of segments for the dispatcher: checks of lengths, which need their values, and the
// shape that the lowerings know.
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using OptionalScalar = std::optional<at::Scalar>;

bool given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

/// [0, l0, l0 + l1, ...] along the last dimension.
at::Tensor offsets_of(const at::Tensor& lengths) {
  return at::constant_pad_nd(lengths.cumsum(-1), {1, 0}, 0);
}

int64_t product(c10::IntArrayRef sizes) { return c10::multiply_integers(sizes); }

/// Data as [batch, n, inner], where the offsets have all dimensions before n.
at::Tensor three(const at::Tensor& data, int64_t axis) {
  return data.reshape({product(data.sizes().slice(0, axis)), data.size(axis),
                       product(data.sizes().slice(axis + 1))});
}

at::Tensor rows(const at::Tensor& offsets) { return offsets.reshape({-1, offsets.size(-1)}); }

void check_lengths(const at::Tensor& data, const at::Tensor& lengths, int64_t axis, bool unsafe) {
  TORCH_CHECK(lengths.device() == data.device(), "Expected data and lengths to be on one device");
  TORCH_CHECK(data.dim() >= lengths.dim(), "Expected data.dim() >= lengths.dim()");
  TORCH_CHECK(axis == lengths.dim() - 1,
              "segment_reduce(): Expected axis to be the last dimension of lengths but got ", axis,
              ".");
  if (unsafe || lengths.numel() == 0) return;
  TORCH_CHECK(lengths.min().item<int64_t>() >= 0, "lengths contains negative value!");
  TORCH_CHECK(lengths.sum(-1).eq(data.size(axis)).all().item<bool>(),
              "segment_reduce(): Expected all rows of lengths along axis to sum to ",
              "data.size(lengths.dim()-1) when !unsafe.");
}

void check_floating(const at::Tensor& data) {
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(data.scalar_type()),
                              "\"_segment_reduce_cpu\" not implemented for '", data.scalar_type(),
                              "'");
}

/// The name that the lowering knows.
std::string reduction(c10::string_view given) {
  std::string name(given.data(), given.size());
  if (name == "amax" || name == "amin") return name.substr(1);
  TORCH_CHECK(name == "max" || name == "mean" || name == "min" || name == "sum" || name == "prod",
              "reduce argument must be either sum, prod, mean, amax or amin, got ", name);
  return name;
}

c10::IValue optional(const OptionalScalar& value) {
  return value ? c10::IValue(*value) : c10::IValue();
}

at::Tensor segment_reduce(const at::Tensor& data, c10::string_view reduce,
                          const OptionalTensor& lengths, const OptionalTensor& indices,
                          const OptionalTensor& offsets, int64_t axis, bool unsafe,
                          const OptionalScalar& initial) {
  axis = at::maybe_wrap_dim(axis, data.dim());
  TORCH_CHECK(given(offsets) || given(lengths),
              "segment_reduce(): Either lengths or offsets must be defined.");
  TORCH_CHECK(!given(indices), "segment_reduce(): indices based reduction is not supported yet.");
  const std::string name = reduction(reduce);
  check_floating(data);
  if (!given(offsets)) check_lengths(data, *lengths, axis, unsafe);
  const at::Tensor ends = given(offsets) ? *offsets : offsets_of(*lengths);
  TORCH_CHECK(axis == ends.dim() - 1,
              "segment_reduce(): Expected axis to be the last dimension of offsets but got ", axis,
              ".");
  auto sizes = data.sizes().vec();
  sizes[axis] = ends.size(-1) - 1;
  const torch::jit::Stack results =
      native("torch_tpu::segment_reduce", three(data, axis), rows(ends), name, optional(initial));
  return results.at(0).toTensor().view(sizes);
}

at::Tensor segment_reduce_backward(const at::Tensor& grad, const at::Tensor& output,
                                   const at::Tensor& data, c10::string_view reduce,
                                   const OptionalTensor& lengths, const OptionalTensor& offsets,
                                   int64_t axis, const OptionalScalar& initial) {
  axis = at::maybe_wrap_dim(axis, data.dim());
  TORCH_CHECK(given(offsets) || given(lengths),
              "segment_reduce(): Either lengths or offsets must be defined.");
  const std::string name = reduction(reduce);
  const at::Tensor ends = given(offsets) ? *offsets : offsets_of(*lengths);
  const torch::jit::Stack results =
      native("torch_tpu::segment_reduce_backward", three(grad, axis), three(output, axis),
             three(data, axis), rows(ends), name, optional(initial));
  return results.at(0).toTensor().view(data.sizes());
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def("segment_reduce(Tensor data, Tensor offsets, str reduce, Scalar? initial) -> Tensor");
  m.def(
      "segment_reduce_backward(Tensor grad, Tensor output, Tensor data, Tensor offsets, str reduce,"
      " Scalar? initial) -> Tensor");
}

at::Tensor segment_reduce_meta(const at::Tensor& data, const at::Tensor& offsets, c10::string_view,
                               const OptionalScalar&) {
  return at::empty({data.size(0), offsets.size(1) - 1, data.size(2)}, data.options());
}

at::Tensor segment_reduce_backward_meta(const at::Tensor&, const at::Tensor&,
                                        const at::Tensor& data, const at::Tensor&, c10::string_view,
                                        const OptionalScalar&) {
  return at::empty(data.sizes(), data.options());
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) {
  m.impl("segment_reduce", segment_reduce_meta);
  m.impl("segment_reduce_backward", segment_reduce_backward_meta);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("segment_reduce", segment_reduce);
  m.impl("_segment_reduce_backward", segment_reduce_backward);
}

}  // namespace
}  // namespace torch_tpu::aten
