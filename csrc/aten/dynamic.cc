// Operators whose result's size depends on values, and index arguments that such an operator has to
// make first. The device computes results padded to the greatest size; the host reads the true size
// and narrows, so that a program does not depend on it.
#include <ATen/core/IListRef.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

using torch::jit::Stack;

at::TensorOptions longs(const at::Tensor& like) { return like.options().dtype(at::kLong); }

/// A size of which there are few: the next power of two.
int64_t bucket(int64_t size) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(size, 1))));
}

/// The first rows (or columns) of padded ones; in memory of their own where padding would waste
/// much.
at::Tensor first(const at::Tensor& padded, int64_t count, int64_t dim = 0) {
  constexpr size_t small_bytes = 64 << 10;
  const int64_t kept = bucket(count);
  const bool wasteful = padded.nbytes() > small_bytes && padded.size(dim) >= 2 * kept;
  return (wasteful ? padded.narrow(dim, 0, kept).clone() : padded).narrow(dim, 0, count);
}

// ---- nonzero, masked_select

at::Tensor nonzero(const at::Tensor& self) {
  if (self.numel() == 0) return at::empty({0, self.dim()}, longs(self));
  const Stack results = native("torch_tpu::nonzero_padded", self);
  // Each column is dense, as on the CPU: they are used as indices.
  return first(results[0].toTensor(), results[1].toTensor().item<int64_t>(), 1).t();
}

at::Tensor& nonzero_out(const at::Tensor& self, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "nonzero: Expected out tensor to have scalar type Long but got scalar type",
              out.scalar_type());
  write_out(aten::nonzero(self), out);
  return out;
}

at::Tensor masked_select(const at::Tensor& self, const at::Tensor& mask) {
  TORCH_CHECK(mask.scalar_type() == at::kBool,
              "masked_select: expected BoolTensor for mask, but got ", mask.scalar_type());
  const auto dims = at::infer_size(self.sizes(), mask.sizes());
  if (c10::multiply_integers(dims) == 0) return at::empty({0}, self.options());
  const Stack results = native("torch_tpu::masked_select_padded", self, mask);
  return first(results[0].toTensor(), results[1].toTensor().item<int64_t>());
}

at::Tensor& masked_select_out(const at::Tensor& self, const at::Tensor& mask, at::Tensor& out) {
  TORCH_CHECK(self.scalar_type() == out.scalar_type(),
              "masked_select(): self and result must have the same scalar type");
  write_out(aten::masked_select(self, mask), out);
  return out;
}

// ---- unique

using Unique = std::tuple<at::Tensor, at::Tensor, at::Tensor>;  // values, inverse, counts

Unique unique_flat(const at::Tensor& self, bool sort, bool return_inverse, bool return_counts) {
  const at::Tensor none = at::empty({0}, longs(self));
  if (self.numel() == 0) {
    const at::Tensor inverse = return_inverse ? at::empty(self.sizes(), longs(self)) : none;
    return {at::empty({0}, self.options()), inverse, none};
  }
  const Stack results = native("torch_tpu::unique_padded", self.reshape({-1}), sort);
  const auto count = results[3].toTensor().item<int64_t>();
  return {first(results[0].toTensor(), count),
          return_inverse ? results[1].toTensor().view(self.sizes()) : none,
          return_counts ? first(results[2].toTensor(), count) : none};
}

Unique unique_slices(const at::Tensor& self, int64_t dim, bool sort) {
  const auto zeros = std::count(self.sizes().begin(), self.sizes().end(), 0);
  dim = c10::maybe_wrap_dim(dim, self.dim());
  if (self.size(dim) == 0) {
    TORCH_CHECK(zeros == 1,
                "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    const at::Tensor none = at::empty({0}, longs(self));
    return {at::empty(self.sizes(), self.options()), none, none};
  }
  TORCH_CHECK(
      zeros == 0,
      "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
  const at::Tensor moved = self.movedim(dim, 0);
  const Stack results =
      native("torch_tpu::unique_rows_padded", moved.reshape({moved.size(0), -1}), sort);
  const auto count = results[3].toTensor().item<int64_t>();
  auto sizes = moved.sizes().vec();
  sizes[0] = count;
  return {first(results[0].toTensor(), count).view(sizes).movedim(0, dim), results[1].toTensor(),
          first(results[2].toTensor(), count)};
}

std::tuple<at::Tensor, at::Tensor> unique(const at::Tensor& self, bool, bool return_inverse) {
  auto [values, inverse, counts] = unique_flat(self, true, return_inverse, false);
  return {values, inverse};
}

Unique unique2(const at::Tensor& self, bool, bool return_inverse, bool return_counts) {
  return unique_flat(self, true, return_inverse, return_counts);
}

Unique unique_dim(const at::Tensor& self, int64_t dim, bool, bool, bool) {
  return unique_slices(self, dim, true);
}

Unique unique_dim_consecutive(const at::Tensor& self, int64_t dim, bool, bool) {
  return unique_slices(self, dim, false);
}

Unique unique_consecutive(const at::Tensor& self, bool return_inverse, bool return_counts,
                          std::optional<int64_t> dim) {
  if (!dim || (*dim == 0 && self.dim() == 1)) {
    return unique_flat(self, false, return_inverse, return_counts);
  }
  return unique_slices(self, *dim, false);
}

// ---- counts

at::Tensor bincount(const at::Tensor& self, const std::optional<at::Tensor>& weights,
                    c10::SymInt minlength_arg) {
  const int64_t minlength = minlength_arg.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(minlength >= 0, "minlength should be >= 0");
  if (self.dim() == 1 && self.numel() == 0) return at::zeros({minlength}, longs(self));
  TORCH_CHECK(self.dim() == 1 && c10::isIntegralType(self.scalar_type(), /*includeBool=*/true),
              "bincount only supports 1-d non-negative integral inputs.");
  const bool weighted = weights && weights->defined();
  TORCH_CHECK(!weighted || (weights->dim() == 1 && weights->size(0) == self.size(0)),
              "weights should be 1-d and have the same length as input");
  const at::Tensor index = self.to(at::kLong);
  const auto [least, greatest] = at::aminmax(index);
  TORCH_CHECK(least.item<int64_t>() >= 0,
              "bincount only supports 1-d non-negative integral inputs.");
  const int64_t size = std::max(greatest.item<int64_t>() + 1, minlength);
  at::Tensor added = at::ones_like(index);
  if (weighted) added = weights->scalar_type() == at::kFloat ? *weights : weights->to(at::kDouble);
  const at::Tensor counts = at::zeros({bucket(size)}, added.options());
  return counts.index_add_(0, index, added).narrow(0, 0, size);
}

at::Tensor repeat_interleave(const at::Tensor& repeats, std::optional<c10::SymInt> output_size) {
  TORCH_CHECK(repeats.dim() == 1, "repeat_interleave only accept 1D vector as repeat");
  TORCH_CHECK(repeats.scalar_type() == at::kLong || repeats.scalar_type() == at::kInt,
              "repeats has to be Long or Int tensor");
  if (repeats.size(0) == 0) return at::empty({0}, repeats.options());
  const at::Tensor ends = repeats.cumsum(0);
  int64_t size = 0;
  if (output_size) {
    size = output_size->guard_int(__FILE__, __LINE__);
  } else {
    size = ends[-1].item<int64_t>();
    TORCH_CHECK(repeats.min().item<int64_t>() >= 0, "repeats can not be negative");
  }
  // Element i of the result comes from the first that ends behind i.
  const at::Tensor all = at::arange(bucket(size), longs(repeats));
  const at::Tensor source = at::searchsorted(ends, all, /*out_int32=*/false, /*right=*/true);
  return source.narrow(0, 0, size).to(repeats.scalar_type());
}

// ---- index, index_put

bool is_mask(const at::Tensor& index) {
  return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
}

/// Masks become positions, and indices on the CPU go to the device, as PyTorch does for CUDA.
void prepare_indices(Stack& stack, size_t arguments) {
  c10::IValue& given = stack[stack.size() - arguments + 1];
  const at::Tensor& self = stack[stack.size() - arguments].toTensor();
  bool ready = true;
  int64_t covered = 0;
  for (const c10::IValue& element : given.toListRef()) {
    if (element.isNone() || !element.toTensor().defined()) {
      ++covered;
      continue;
    }
    const at::Tensor& index = element.toTensor();
    const at::ScalarType type = index.scalar_type();
    TORCH_CHECK_INDEX(type == at::kLong || type == at::kInt || is_mask(index),
                      "tensors used as indices must be long, int, byte or bool tensors");
    TORCH_CHECK_INDEX(
        is_mask(index) || index.numel() == 0 || covered >= self.dim() || self.size(covered) != 0,
        "index is out of bounds for dimension with size 0");
    covered += is_mask(index) ? index.dim() : 1;
    ready &= index.device() == self.device() && !is_mask(index);
  }
  if (ready) return;
  const c10::List<std::optional<at::Tensor>> indices = given.toOptionalTensorList();
  given = at::native::toListOfOptionalTensors(
      at::native::expandTensors(self, indices, /*ensure_same_device=*/true));
}

/// Where one mask chooses the elements of one number, nothing needs to know how many: the mask with
/// a dimension for each of self's from where it stands, or nothing.
std::optional<at::Tensor> mask_to_fill(const at::Tensor& self, const c10::IValue& indices,
                                       const at::Tensor& value) {
  if (value.numel() != 1 || value.scalar_type() != self.scalar_type()) return {};
  at::Tensor mask;
  int64_t covered = 0;
  for (const c10::IValue& element : indices.toListRef()) {
    if (element.isNone() || !element.toTensor().defined()) {
      covered += !mask.defined();
      continue;
    }
    const at::Tensor& index = element.toTensor();
    if (mask.defined() || !is_mask(index) || index.device() != self.device()) return {};
    mask = index;
    for (int64_t d = 0; d < mask.dim(); ++d, ++covered) {
      if (covered >= self.dim() || mask.size(d) != self.size(covered)) return {};
    }
  }
  if (!mask.defined()) return {};
  for (; covered < self.dim(); ++covered) mask = mask.unsqueeze(-1);
  return mask.scalar_type() == at::kBool ? mask : mask.to(at::kBool);
}

/// True if elements of the tensor may share memory (expand, overlapping windows).
bool may_share_elements(const at::Tensor& self) {
  std::vector<std::pair<int64_t, int64_t>> dims;  // stride, size
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (self.size(d) > 1) dims.emplace_back(self.stride(d), self.size(d));
  }
  std::ranges::sort(dims);
  int64_t reach = 0;
  for (const auto& [stride, size] : dims) {
    if (stride <= reach) return true;
    reach += stride * (size - 1);
  }
  return false;
}

/// Writes the elements' places in the storage, as writing the whole view back would also write the
/// old values of elements that share memory with those assigned.
void index_put_shared(const at::Tensor& self, const c10::List<std::optional<at::Tensor>>& indices,
                      const at::Tensor& value, bool accumulate) {
  int64_t end = self.storage_offset() + 1;
  for (int64_t d = 0; d < self.dim(); ++d) end += (self.size(d) - 1) * self.stride(d);
  const at::Tensor places =
      at::arange(end, longs(self)).as_strided(self.sizes(), self.strides(), self.storage_offset());
  const at::Tensor chosen = at::index(places, indices);
  at::Tensor memory = self.as_strided({end}, {1}, 0);
  memory.index_put_({chosen}, value.expand(chosen.sizes()), accumulate);
}

void index(const c10::OperatorHandle& op, Stack* stack) {
  prepare_indices(*stack, op.schema().arguments().size());
  run_native(toString(op.operator_name()), *stack);
}

void index_put(const c10::OperatorHandle& op, Stack* stack) {
  const size_t count = op.schema().arguments().size();
  const c10::IValue* args = stack->data() + (stack->size() - count);
  at::Tensor self = args[0].toTensor();
  const at::Tensor value = args[2].toTensor();
  TORCH_CHECK(self.scalar_type() == value.scalar_type(),
              "Index put requires the source and destination dtypes match, got ",
              self.scalar_type(), " for the destination and ", value.scalar_type(),
              " for the source.");
  const bool writes_self = op.schema().arguments()[0].alias_info() != nullptr;
  const bool writes_out = !writes_self && op.schema().returns()[0].alias_info() != nullptr;
  if (!writes_out && !args[3].toBool()) {
    if (const auto mask = mask_to_fill(self, args[1], value)) {
      const at::Tensor number = value.dim() == 0 ? value : value.reshape({});
      if (writes_self) {
        self.masked_fill_(*mask, number);
      } else {
        self = self.masked_fill(*mask, number);
      }
      torch::jit::drop(*stack, count);
      stack->emplace_back(std::move(self));
      return;
    }
  }
  if (writes_self && self.numel() > 0 && may_share_elements(self)) {
    index_put_shared(self, args[1].toOptionalTensorList(), value, args[3].toBool());
    torch::jit::drop(*stack, count);
    stack->emplace_back(std::move(self));
    return;
  }
  index(op, stack);
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def("nonzero_padded(Tensor self) -> (Tensor, Tensor)");
  m.def("masked_select_padded(Tensor self, Tensor mask) -> (Tensor, Tensor)");
  m.def("unique_padded(Tensor self, bool sort) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def("unique_rows_padded(Tensor self, bool sort) -> (Tensor, Tensor, Tensor, Tensor)");
}

// Shapes of the padded results.

at::Tensor count_like(const at::Tensor& self) { return at::empty({}, longs(self)); }

std::tuple<at::Tensor, at::Tensor> nonzero_padded_meta(const at::Tensor& self) {
  return {at::empty({self.dim(), self.numel()}, longs(self)), count_like(self)};
}

std::tuple<at::Tensor, at::Tensor> masked_select_padded_meta(const at::Tensor& self,
                                                             const at::Tensor& mask) {
  const auto dims = at::infer_size(self.sizes(), mask.sizes());
  return {at::empty({c10::multiply_integers(dims)}, self.options()), count_like(self)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> unique_padded_meta(
    const at::Tensor& self, bool) {
  const at::Tensor each = at::empty({self.size(0)}, longs(self));
  return {at::empty(self.sizes(), self.options()), each, at::empty_like(each), count_like(self)};
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) {
  m.impl("nonzero_padded", nonzero_padded_meta);
  m.impl("masked_select_padded", masked_select_padded_meta);
  m.impl("unique_padded", unique_padded_meta);
  m.impl("unique_rows_padded", unique_padded_meta);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("nonzero", nonzero);
  m.impl("nonzero.out", nonzero_out);
  m.impl("masked_select", masked_select);
  m.impl("masked_select.out", masked_select_out);
  m.impl("_unique", unique);
  m.impl("_unique2", unique2);
  m.impl("unique_dim", unique_dim);
  m.impl("unique_dim_consecutive", unique_dim_consecutive);
  m.impl("unique_consecutive", unique_consecutive);
  m.impl("bincount", bincount);
  m.impl("repeat_interleave.Tensor", repeat_interleave);
  for (const char* name : {"index.Tensor", "index.Tensor_out"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&index>());
  }
  for (const char* name : {"index_put", "index_put_", "index_put.out", "_index_put_impl",
                           "_index_put_impl_", "_index_put_impl.out"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&index_put>());
  }
}

}  // namespace
}  // namespace torch_tpu::aten
