// Tensors made from numbers: the host computes the size, as PyTorch does, and the device fills.
#include <ATen/core/Tensor.h>
#include <ATen/native/RangeUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>

#include "aten/native.h"

namespace torch_tpu::aten {
namespace {

using c10::Scalar;

/// Runs a filling operator of ours on the target.
template <typename... Args>
void fill(const char* name, const at::Tensor& target, Args&&... args) {
  if (target.numel() == 0) return;
  torch::jit::Stack stack;
  torch::jit::push(stack, target, std::forward<Args>(args)...);
  run_native(name, stack);
}

/// Fills the elements in row-major order, whatever shape an out= has.
template <typename... Args>
at::Tensor& fill_in_order(const char* name, at::Tensor& out, Args&&... args) {
  if (out.dim() == 1) {
    fill(name, out, std::forward<Args>(args)...);
    return out;
  }
  const at::Tensor flat = at::empty({out.numel()}, out.options());
  fill(name, flat, std::forward<Args>(args)...);
  return out.copy_(flat.view(out.sizes()));
}

/// out= of a range: it keeps its shape where the number of elements is right.
void fit_range(at::Tensor& out, int64_t size) {
  if (out.numel() == size) return;
  if (out.numel() > 0) {
    TORCH_WARN("The number of elements in the out tensor of shape ", out.sizes(), " is ",
               out.numel(), " which does not match the computed number of elements ", size,
               ". Note that this may occur as a result of rounding error. The out tensor will be "
               "resized to a tensor of shape (",
               size, ",).");
  }
  out.resize_({size});
}

at::Tensor& arange_out(const Scalar& start, const Scalar& end, const Scalar& step,
                       at::Tensor& out) {
  const bool exact = out.scalar_type() == at::kLong;
  fit_range(out, exact ? at::native::compute_arange_size<int64_t>(start, end, step)
                       : at::native::compute_arange_size<double>(start, end, step));
  return fill_in_order("torch_tpu::arange_", out, start, step);
}

at::Tensor& range_out(const Scalar& start, const Scalar& end, const Scalar& step, at::Tensor& out) {
  at::native::arange_check_bounds(start, end, step);
  const double size = std::floor((end.toDouble() - start.toDouble()) / step.toDouble() + 1);
  TORCH_CHECK(size >= 0 && size <= static_cast<double>(std::numeric_limits<int64_t>::max()),
              "invalid size, possible overflow?");
  fit_range(out, static_cast<int64_t>(size));
  return fill_in_order("torch_tpu::arange_", out, start, step);
}

void fit_steps(at::Tensor& out, int64_t steps) {
  TORCH_CHECK(steps >= 0, "number of steps must be non-negative");
  if (out.numel() != steps) out.resize_({steps});
}

at::Tensor& linspace_out(const Scalar& start, const Scalar& end, int64_t steps, at::Tensor& out) {
  fit_steps(out, steps);
  return fill_in_order("torch_tpu::linspace_", out, start, end);
}

at::Tensor& logspace_out(const Scalar& start, const Scalar& end, int64_t steps, double base,
                         at::Tensor& out) {
  fit_steps(out, steps);
  return fill_in_order("torch_tpu::logspace_", out, start, end, base);
}

at::Tensor& eye(int64_t rows, int64_t columns, at::Tensor& out) {
  out.resize_({rows, columns});
  fill("torch_tpu::eye_", out);
  return out;
}

at::Tensor& eye_out(c10::SymInt n, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  const int64_t size = n.guard_int(__FILE__, __LINE__);
  return eye(size, size, out);
}

at::Tensor& eye_m_out(c10::SymInt n, c10::SymInt m, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TORCH_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
  return eye(n.guard_int(__FILE__, __LINE__), m.guard_int(__FILE__, __LINE__), out);
}

/// Number of elements on and below a diagonal.
int64_t count_below(int64_t rows, int64_t columns, int64_t offset) {
  int64_t count = 0;
  for (int64_t row = 0; row < rows; ++row) {
    count += std::clamp<int64_t>(row + offset + 1, 0, columns);
  }
  return count;
}

at::Tensor triangle_indices(int64_t rows, int64_t columns, int64_t offset, bool upper,
                            std::optional<at::ScalarType> dtype, std::optional<at::Device> device) {
  TORCH_CHECK(rows >= 0, "row must be non-negative, got", rows);
  TORCH_CHECK(columns >= 0, "col must be non-negative, got", columns);
  const int64_t count = upper ? rows * columns - count_below(rows, columns, offset - 1)
                              : count_below(rows, columns, offset);
  at::Tensor out =
      at::empty({2, count}, at::TensorOptions().dtype(dtype.value_or(at::kLong)).device(device));
  fill("torch_tpu::triangle_indices_", out, rows, columns, offset, upper);
  return out;
}

at::Tensor tril_indices(int64_t rows, int64_t columns, int64_t offset,
                        std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                        std::optional<at::Device> device, std::optional<bool>) {
  return triangle_indices(rows, columns, offset, /*upper=*/false, dtype, device);
}

at::Tensor triu_indices(int64_t rows, int64_t columns, int64_t offset,
                        std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                        std::optional<at::Device> device, std::optional<bool>) {
  return triangle_indices(rows, columns, offset, /*upper=*/true, dtype, device);
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def("arange_(Tensor(a!) self, Scalar start, Scalar step) -> Tensor(a!)");
  m.def("linspace_(Tensor(a!) self, Scalar start, Scalar end) -> Tensor(a!)");
  m.def("logspace_(Tensor(a!) self, Scalar start, Scalar end, float base) -> Tensor(a!)");
  m.def("eye_(Tensor(a!) self) -> Tensor(a!)");
  m.def(
      "triangle_indices_(Tensor(a!) self, int rows, int columns, int offset, bool upper)"
      " -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("arange.start_out", arange_out);
  m.impl("range.out", range_out);
  m.impl("linspace.out", linspace_out);
  m.impl("logspace.out", logspace_out);
  m.impl("eye.out", eye_out);
  m.impl("eye.m_out", eye_m_out);
  m.impl("tril_indices", tril_indices);
  m.impl("triu_indices", triu_indices);
}

}  // namespace
}  // namespace torch_tpu::aten
