#include "lowering/view.h"

#include <algorithm>
#include <numeric>

#include "stablehlo/math.h"

namespace torch_tpu::lowering {

using stablehlo::Builder;
using stablehlo::Dims;
using stablehlo::DType;
using stablehlo::Type;
using stablehlo::Value;

namespace {

/// The dimensions that address memory: not of size 1 and not repeated by stride 0, largest stride
/// first. Returns their number.
int sorted_dims(std::span<const int64_t> sizes, std::span<const int64_t> strides, int* dims) {
  int k = 0;
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    if (sizes[d] == 1 || strides[d] == 0) continue;
    int at = k++;
    while (at > 0 && strides[dims[at - 1]] < strides[d]) {
      dims[at] = dims[at - 1];
      --at;
    }
    dims[at] = d;
  }
  return k;
}

struct Blocks {
  int k = 0;
  std::array<int, kMaxViewDims> dims;
  bool nested = true;     // each dimension's extent fits in the stride of the one before
  bool divisible = true;  // and each stride divides the one before
};

Blocks blocks_of(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  Blocks out;
  out.k = sorted_dims(sizes, strides, out.dims.data());
  for (int i = 0; i + 1 < out.k; ++i) {
    const int64_t outer = strides[out.dims[i]];
    const int64_t inner = strides[out.dims[i + 1]];
    // The last element of the inner dimensions must come before the outer stride's next step.
    if ((sizes[out.dims[i + 1]] - 1) * inner >= outer) out.nested = false;
    if (outer % inner != 0) out.divisible = false;
  }
  // The test above looks at neighbours; inner dimensions together must fit as well.
  int64_t extent = 1;
  for (int i = out.k - 1; i >= 0; --i) {
    const int64_t stride = strides[out.dims[i]];
    if (extent > stride) out.nested = false;
    extent += (sizes[out.dims[i]] - 1) * stride;
  }
  return out;
}

/// Elements from the first to the last of the dimensions from `first` on.
int64_t extent_from(const Blocks& blocks, const ViewSpec& view, int first) {
  int64_t extent = 1;
  for (int i = first; i < blocks.k; ++i) {
    extent += (view.sizes[blocks.dims[i]] - 1) * view.strides[blocks.dims[i]];
  }
  return extent;
}

/// Order that turns the sorted dimensions into logical order.
Dims logical_permutation(const Blocks& blocks) {
  Dims order(blocks.k);
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int64_t a, int64_t b) { return blocks.dims[a] < blocks.dims[b]; });
  return order;
}

Dims inverse(const Dims& permutation) {
  Dims out(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) out[permutation[i]] = static_cast<int64_t>(i);
  return out;
}

Dims sorted_sizes(const Blocks& blocks, const ViewSpec& view) {
  Dims out;
  for (int i = 0; i < blocks.k; ++i) out.push_back(view.sizes[blocks.dims[i]]);
  return out;
}

/// From the box of sorted dimensions to the logical shape, repeating what has stride 0.
Value to_logical(Value box, const Blocks& blocks, const ViewSpec& view) {
  Builder& b = box.builder();
  Value x = b.transpose(box, logical_permutation(blocks));
  Dims present;
  for (int d = 0; d < static_cast<int>(view.sizes.size()); ++d) {
    if (view.sizes[d] != 1 && view.strides[d] != 0) present.push_back(d);
  }
  const bool repeats = [&] {
    for (size_t d = 0; d < view.sizes.size(); ++d) {
      if (view.sizes[d] != 1 && view.strides[d] == 0) return true;
    }
    return false;
  }();
  return repeats ? b.broadcast_in_dim(x, view.sizes, present) : b.reshape(x, view.sizes);
}

/// The inverse of to_logical. Of elements that share memory the first one is taken.
Value from_logical(Value value, const Blocks& blocks, const ViewSpec& view) {
  Builder& b = value.builder();
  Dims zero(view.sizes.size(), 0), limit = view.sizes, kept;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] != 1 && view.strides[d] == 0) limit[d] = 1;
    if (view.sizes[d] != 1 && view.strides[d] != 0) kept.push_back(view.sizes[d]);
  }
  if (limit != view.sizes) value = b.slice(value, zero, limit);
  value = b.reshape(value, kept);
  return b.transpose(value, inverse(logical_permutation(blocks)));
}

/// Shape of the base in which a Sliced view is a box: one dimension for each stride, and one for
/// the elements that the smallest stride skips.
Dims refined_shape(int64_t numel, const Blocks& blocks, const ViewSpec& view) {
  Dims shape;
  int64_t outer = 0;
  for (int i = 0; i < blocks.k; ++i) {
    const int64_t stride = view.strides[blocks.dims[i]];
    shape.push_back(i == 0 ? (numel + stride - 1) / stride : outer / stride);
    outer = stride;
  }
  if (blocks.k == 0) {
    shape.push_back(numel);
  } else if (outer != 1) {
    shape.push_back(outer);
  }
  return shape;
}

Value pad_end(Value flat, int64_t numel) {
  Builder& b = flat.builder();
  const int64_t missing = numel - flat.numel();
  if (missing == 0) return flat;
  return b.pad(flat, b.zeros({flat.dtype(), {}}), {0}, {missing});
}

/// Box sizes in the refined shape, and start values (constant 0 where the box covers a dimension).
std::pair<Dims, stablehlo::Values> box_of(Builder& b, const Dims& shape, const Blocks& blocks,
                                          const ViewSpec& view, std::span<const Value> starts) {
  Dims sizes = sorted_sizes(blocks, view);
  if (sizes.size() < shape.size()) sizes.push_back(1);
  stablehlo::Values at(starts.begin(), starts.end());
  for (size_t i = 0; i < shape.size(); ++i) {
    if (sizes[i] == shape[i]) at[i] = b.constant_int(at[i].dtype(), 0);
  }
  return {sizes, at};
}

Value read_sliced(Value flat_or_base, const Blocks& blocks, const ViewSpec& view,
                  std::span<const Value> starts) {
  Builder& b = flat_or_base.builder();
  const int64_t numel = flat_or_base.numel();
  const Dims shape = refined_shape(numel, blocks, view);
  const int64_t padded = stablehlo::numel(shape);
  Value base = padded == numel ? flat_or_base : pad_end(stablehlo::flatten(flat_or_base), padded);
  base = b.reshape(base, shape);
  auto [sizes, at] = box_of(b, shape, blocks, view, starts);
  Value box = sizes == shape ? base : b.dynamic_slice(base, at, sizes);
  return to_logical(b.reshape(box, sorted_sizes(blocks, view)), blocks, view);
}

Value write_sliced(Value base, const Blocks& blocks, const ViewSpec& view,
                   std::span<const Value> starts, Value value) {
  Builder& b = base.builder();
  const Dims original = base.dims();
  const int64_t numel = base.numel();
  const Dims shape = refined_shape(numel, blocks, view);
  const int64_t padded = stablehlo::numel(shape);
  Value refined = padded == numel ? base : pad_end(stablehlo::flatten(base), padded);
  refined = b.reshape(refined, shape);
  auto [sizes, at] = box_of(b, shape, blocks, view, starts);
  Value box = b.reshape(from_logical(value, blocks, view), sizes);
  Value updated = sizes == shape ? box : b.dynamic_update_slice(refined, box, at);
  if (padded != numel) {
    updated = b.slice(stablehlo::flatten(updated), {0}, {numel});
  }
  return b.reshape(updated, original);
}

/// Cuts level `i` of a window: x is [..., extent of level i], the result [..., s_i, ..., s_(k-1)].
Value cut_levels(Value x, const Blocks& blocks, const ViewSpec& view, int i) {
  if (i == blocks.k) return stablehlo::reshape(x, Dims(x.dims().begin(), x.dims().end() - 1));
  Builder& b = x.builder();
  const int64_t size = view.sizes[blocks.dims[i]];
  const int64_t stride = view.strides[blocks.dims[i]];
  Dims low(x.rank(), 0), high(x.rank(), 0);
  high.back() = size * stride - x.dims().back();
  x = b.pad(x, b.zeros({x.dtype(), {}}), low, high);
  Dims split(x.dims().begin(), x.dims().end() - 1);
  split.push_back(size);
  split.push_back(stride);
  x = b.reshape(x, split);
  x = stablehlo::slice_dim(x, x.rank() - 1, 0, extent_from(blocks, view, i + 1));
  return cut_levels(x, blocks, view, i + 1);
}

/// The inverse of cut_levels: x with `box` written at the places that cut_levels reads.
Value put_levels(Value x, Value box, const Blocks& blocks, const ViewSpec& view, int i) {
  if (i == blocks.k) return stablehlo::reshape(box, x.dims());
  Builder& b = x.builder();
  const Dims original = x.dims();
  const int64_t size = view.sizes[blocks.dims[i]];
  const int64_t stride = view.strides[blocks.dims[i]];
  Dims low(x.rank(), 0), high(x.rank(), 0);
  high.back() = size * stride - original.back();
  Value rows = b.pad(x, b.zeros({x.dtype(), {}}), low, high);
  Dims split(original.begin(), original.end() - 1);
  split.push_back(size);
  split.push_back(stride);
  rows = b.reshape(rows, split);
  Value inner = stablehlo::slice_dim(rows, rows.rank() - 1, 0, extent_from(blocks, view, i + 1));
  inner = put_levels(inner, box, blocks, view, i + 1);
  stablehlo::Values zero(rows.rank(), b.constant_int(DType::S32, 0));
  rows = b.dynamic_update_slice(rows, inner, zero);
  Dims joined(original.begin(), original.end() - 1);
  joined.push_back(size * stride);
  rows = b.reshape(rows, joined);
  return stablehlo::slice_dim(rows, rows.rank() - 1, 0, original.back());
}

/// Flat index of every element of the view.
Value flat_indices(Builder& b, const ViewSpec& view, Value start) {
  const Type type{start.dtype(), view.sizes};
  Value index = b.broadcast_in_dim(start, view.sizes, {});
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 1 || view.strides[d] == 0) continue;
    index = index + b.iota(type, static_cast<int64_t>(d)) *
                        b.constant_int(type.dtype, view.strides[d], view.sizes);
  }
  return index;
}

Value read_gather(Value flat, const ViewSpec& view, Value start) {
  Builder& b = flat.builder();
  Value index = flat_indices(b, view, start);
  stablehlo::GatherDims dims;
  dims.collapsed_slice_dims = {0};
  dims.start_index_map = {0};
  dims.index_vector_dim = index.rank();
  dims.slice_sizes = {1};
  return b.gather(flat, index, dims);
}

Value write_gather(Value flat, const ViewSpec& view, Value start, Value value) {
  Builder& b = flat.builder();
  Value index = flat_indices(b, view, start);
  stablehlo::ScatterDims dims;
  dims.inserted_window_dims = {0};
  dims.scatter_dims_to_operand_dims = {0};
  dims.index_vector_dim = index.rank();
  return b.scatter(flat, index, value, dims, [](Builder&, std::span<const Value> args) {
    return stablehlo::Values{args[1]};
  });
}

Value apply_bits(Value x, const ViewSpec& view) {
  Builder& b = x.builder();
  if (view.conj && stablehlo::is_complex(x.dtype())) x = b.complex(b.real(x), -b.imag(x));
  return view.neg ? -x : x;
}

/// Bytes of a flat value: tensor<n x ui8>.
Value to_bytes(Value flat) {
  Builder& b = flat.builder();
  if (stablehlo::is_complex(flat.dtype()))
    flat = reinterpret(flat, stablehlo::real_dtype(flat.dtype()));
  if (flat.dtype() == DType::Pred) return b.convert(flat, DType::U8);
  return stablehlo::flatten(b.bitcast_convert(flat, DType::U8));
}

}  // namespace

void plan_view(int64_t base_numel, std::span<const int64_t> sizes, std::span<const int64_t> strides,
               int64_t offset, bool whole, ViewPlan& plan) {
  plan.num_starts = 0;
  for (int64_t size : sizes) {
    if (size == 0) {
      plan.kind = ViewKind::Empty;
      return;
    }
  }
  if (whole) {
    plan.kind = ViewKind::Whole;
    return;
  }
  const Blocks blocks = blocks_of(sizes, strides);
  if (!blocks.nested) {
    plan.kind = ViewKind::Gather;
  } else if (blocks.k == 0) {
    plan.kind = ViewKind::Sliced;
  } else {
    plan.kind = blocks.divisible ? ViewKind::Sliced : ViewKind::Window;
  }
  if (plan.kind == ViewKind::Sliced) {
    // Greedy digits of the offset in the mixed radix of the strides; the box must not cross a
    // digit.
    int64_t rest = offset, outer = base_numel;
    for (int i = 0; i < blocks.k; ++i) {
      const int64_t stride = strides[blocks.dims[i]];
      const int64_t start = rest / stride;
      rest %= stride;
      if (i > 0 && start + sizes[blocks.dims[i]] > outer / stride) plan.kind = ViewKind::Window;
      plan.starts[plan.num_starts++] = start;
      outer = stride;
    }
    if (blocks.k == 0 || outer != 1) plan.starts[plan.num_starts++] = rest;
  }
  if (plan.kind != ViewKind::Sliced) {
    plan.starts[0] = offset;
    plan.num_starts = 1;
  }
}

int num_starts(const ViewSpec& view) {
  if (view.kind == ViewKind::Empty || view.kind == ViewKind::Whole) return 0;
  if (view.kind != ViewKind::Sliced) return 1;
  const Blocks blocks = blocks_of(view.sizes, view.strides);
  if (blocks.k == 0) return 1;
  return blocks.k + (view.strides[blocks.dims[blocks.k - 1]] != 1 ? 1 : 0);
}

Value read_view(Value base, const ViewSpec& view, std::span<const Value> starts) {
  Builder& b = base.builder();
  if (base.dtype() != view.dtype) base = reinterpret(stablehlo::flatten(base), view.dtype);
  const Blocks blocks = blocks_of(view.sizes, view.strides);
  switch (view.kind) {
    case ViewKind::Empty:
      return b.zeros({view.dtype, view.sizes});
    case ViewKind::Whole:
      return apply_bits(to_logical(b.reshape(base, sorted_sizes(blocks, view)), blocks, view),
                        view);
    case ViewKind::Sliced:
      return apply_bits(read_sliced(base, blocks, view, starts), view);
    case ViewKind::Window: {
      const int64_t extent = extent_from(blocks, view, 0);
      Value piece = b.dynamic_slice(stablehlo::flatten(base), starts.subspan(0, 1), {extent});
      return apply_bits(to_logical(cut_levels(piece, blocks, view, 0), blocks, view), view);
    }
    case ViewKind::Gather:
      return apply_bits(read_gather(stablehlo::flatten(base), view, starts[0]), view);
  }
  throw stablehlo::BuildError("read_view: unknown kind of view");
}

Value write_view(Value base, const Type& base_type, const ViewSpec& view,
                 std::span<const Value> starts, Value value) {
  Builder& b = value.builder();
  value = apply_bits(value, view);
  const Blocks blocks = blocks_of(view.sizes, view.strides);
  if (view.kind == ViewKind::Empty) return base;
  if (view.kind == ViewKind::Whole) {
    Value dense = from_logical(value, blocks, view);
    if (view.dtype != base_type.dtype) {
      dense = reinterpret(stablehlo::flatten(dense), base_type.dtype);
      // A storage may end with bytes that are no whole element of the view; then it is not Whole.
    }
    return b.reshape(dense, base_type.dims);
  }
  Value seen = base;
  if (base.dtype() != view.dtype) seen = reinterpret(stablehlo::flatten(base), view.dtype);
  Value updated;
  switch (view.kind) {
    case ViewKind::Sliced:
      updated = write_sliced(seen, blocks, view, starts, value);
      break;
    case ViewKind::Window: {
      const int64_t extent = extent_from(blocks, view, 0);
      Value flat = stablehlo::flatten(seen);
      Value piece = b.dynamic_slice(flat, starts.subspan(0, 1), {extent});
      piece = put_levels(piece, from_logical(value, blocks, view), blocks, view, 0);
      updated = b.dynamic_update_slice(flat, piece, starts.subspan(0, 1));
      break;
    }
    default:
      updated = write_gather(stablehlo::flatten(seen), view, starts[0], value);
  }
  if (view.dtype != base_type.dtype) {
    updated = reinterpret(stablehlo::flatten(updated), base_type.dtype);
    const int64_t numel = base_type.numel();
    if (updated.numel() < numel) {
      // Trailing bytes that the view's dtype does not reach keep their old value.
      Value tail = b.slice(stablehlo::flatten(base), {updated.numel()}, {numel});
      const std::array<Value, 2> parts{updated, tail};
      updated = b.concatenate(parts, 0);
    } else if (updated.numel() > numel) {
      updated = b.slice(updated, {0}, {numel});
    }
  }
  return b.reshape(updated, base_type.dims);
}

Value reinterpret(Value flat, DType dtype) {
  if (flat.dtype() == dtype) return flat;
  Builder& b = flat.builder();
  const DType from = flat.dtype();
  if (stablehlo::is_complex(from) && stablehlo::real_dtype(from) == dtype) {
    const std::array<Value, 2> parts{stablehlo::unsqueeze(b.real(flat), 1),
                                     stablehlo::unsqueeze(b.imag(flat), 1)};
    return stablehlo::flatten(b.concatenate(parts, 1));
  }
  if (stablehlo::is_complex(dtype)) {
    const DType real = stablehlo::real_dtype(dtype);
    Value parts = reinterpret(flat, real);
    const int64_t count = parts.numel() / 2;
    parts = b.slice(parts, {0}, {count * 2});
    parts = b.reshape(parts, {count, 2});
    return b.complex(b.reshape(stablehlo::slice_dim(parts, 1, 0, 1), {count}),
                     b.reshape(stablehlo::slice_dim(parts, 1, 1, 2), {count}));
  }
  if (from != DType::Pred && dtype != DType::Pred && !stablehlo::is_complex(from) &&
      stablehlo::byte_size(from) == stablehlo::byte_size(dtype)) {
    return b.bitcast_convert(flat, dtype);
  }
  Value bytes = to_bytes(flat);
  if (dtype == DType::U8) return bytes;
  if (dtype == DType::Pred) return stablehlo::ne(bytes, 0.0);
  const int64_t width = stablehlo::byte_size(dtype);
  if (width == 1) return b.bitcast_convert(bytes, dtype);
  // Bytes after the last whole element are not visible through the view.
  const int64_t count = bytes.numel() / width;
  bytes = b.slice(bytes, {0}, {count * width});
  return b.bitcast_convert(b.reshape(bytes, {count, width}), dtype);
}

Dims memory_order_dims(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  // Dimensions of size 1 may have any stride: they stay where they are.
  bool sorted = true;
  int64_t last = INT64_MAX;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 1) continue;
    sorted &= strides[d] <= last;
    last = strides[d];
  }
  if (sorted) return Dims(sizes.begin(), sizes.end());  // the usual case, on the path of every call
  std::vector<size_t> order;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1) order.push_back(d);
  }
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  Dims out(sizes.begin(), sizes.end());
  size_t next = 0;
  for (int64_t& size : out) {
    if (size != 1) size = sizes[order[next++]];
  }
  return out;
}

}  // namespace torch_tpu::lowering
