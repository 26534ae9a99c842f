#include "lowering/taps.h"

#include <algorithm>

namespace torch_tpu::lowering {
namespace {

/// Rows longer than this become one gather and a reduction instead of a sum of gathers.
constexpr size_t kMaxUnrolled = 8;

Dims iota_dims(int64_t rank) {
  Dims dims(rank);
  for (int64_t i = 0; i < rank; ++i) dims[i] = i;
  return dims;
}

/// The step of an arithmetic progression that goes up, or 0.
int64_t step_of(const Dims& indices) {
  if (indices.size() == 1) return 1;
  const int64_t step = indices[1] - indices[0];
  if (step <= 0) return 0;
  for (size_t i = 1; i < indices.size(); ++i) {
    if (indices[i] - indices[i - 1] != step) return 0;
  }
  return step;
}

/// How often each element of 0, 1, 2, ... size - 1 is repeated if the indices are that, or 0.
int64_t repeats_of(const Dims& indices, int64_t size) {
  const int64_t count = static_cast<int64_t>(indices.size());
  if (size == 0 || count % size != 0) return 0;
  const int64_t repeats = count / size;
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] != i / repeats) return 0;
  }
  return repeats;
}

Value gather_along(Value x, int64_t dim, const Dims& indices) {
  Builder& b = x.builder();
  stablehlo::GatherDims dims;
  dims.offset_dims = iota_dims(x.rank());
  dims.offset_dims.erase(dims.offset_dims.begin() + dim);
  dims.collapsed_slice_dims = {dim};
  dims.start_index_map = {dim};
  dims.index_vector_dim = 1;
  dims.slice_sizes = x.dims();
  dims.slice_sizes[dim] = 1;
  return b.gather(x, b.constant_ints(DType::S32, indices), dims);
}

size_t longest(const Taps& rows) {
  size_t length = 0;
  for (const auto& row : rows) length = std::max(length, row.size());
  return length;
}

/// Column t of the map: its indices, weights, and which rows have a t-th tap.
struct Column {
  Dims indices;
  std::vector<double> weights;
  Dims present;
  bool all_present = true, all_ones = true;
};

void append(Column& column, const std::vector<Tap>& row, size_t t) {
  const bool present = t < row.size();
  const Tap tap = present ? row[t] : Tap{row.empty() ? 0 : row.back().index, 0.0};
  column.indices.push_back(tap.index);
  column.weights.push_back(tap.weight);
  column.present.push_back(present);
  column.all_present &= present;
  column.all_ones &= !present || tap.weight == 1.0;
}

/// Weighs gathered elements, `dims` being the shape of the column's constants against them.
Value weigh(Value gathered, const Column& column, const Dims& dims) {
  Builder& b = gathered.builder();
  Value out = gathered;
  if (!column.all_ones) {
    out = out * reshape(b.constant_floats(out.dtype(), column.weights), dims);
  }
  if (!column.all_present) {
    const Value present = convert(b.constant_ints(DType::S32, column.present), DType::Pred);
    out = where(reshape(present, dims), out, zeros_like(out));
  }
  return out;
}

}  // namespace

Value take(Value x, int64_t dim, const Dims& indices) {
  const int64_t count = static_cast<int64_t>(indices.size());
  if (count == 0) return slice_dim(x, dim, 0, 0);
  if (const int64_t step = step_of(indices)) {
    return slice_dim(x, dim, indices.front(), indices.back() + 1, step);
  }
  if (const int64_t repeats = repeats_of(indices, x.dim(dim))) {
    Dims wide = x.dims();
    wide.insert(wide.begin() + dim + 1, repeats);
    Dims kept = iota_dims(x.rank() + 1);
    kept.erase(kept.begin() + dim + 1);
    Dims result = x.dims();
    result[dim] = count;
    return reshape(x.builder().broadcast_in_dim(x, wide, kept), result);
  }
  return gather_along(x, dim, indices);
}

Value apply_taps(Value x, int64_t dim, const Taps& rows) {
  const size_t length = longest(rows);
  const int64_t count = static_cast<int64_t>(rows.size());
  Dims result = x.dims();
  result[dim] = count;
  if (length == 0 || stablehlo::numel(result) == 0) return x.builder().zeros({x.dtype(), result});
  Dims constant_dims(x.rank(), 1);
  constant_dims[dim] = count;
  if (length <= kMaxUnrolled) {
    Value sum;
    for (size_t t = 0; t < length; ++t) {
      Column column;
      for (const auto& row : rows) append(column, row, t);
      const Value term = weigh(take(x, dim, column.indices), column, constant_dims);
      sum = sum ? sum + term : term;
    }
    return sum;
  }
  Column all;
  for (const auto& row : rows) {
    for (size_t t = 0; t < length; ++t) append(all, row, t);
  }
  Dims wide = x.dims();
  wide[dim] = count;
  wide.insert(wide.begin() + dim + 1, static_cast<int64_t>(length));
  constant_dims.insert(constant_dims.begin() + dim + 1, static_cast<int64_t>(length));
  return reduce_sum(weigh(reshape(take(x, dim, all.indices), wide), all, constant_dims), {dim + 1});
}

Taps transposed(const Taps& rows, int64_t size) {
  Taps out(size);
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const Tap& tap : rows[r]) {
      auto& row = out[tap.index];
      const int64_t from = static_cast<int64_t>(r);
      // Clamped indices name an element more than once.
      if (!row.empty() && row.back().index == from) {
        row.back().weight += tap.weight;
      } else {
        row.push_back({from, tap.weight});
      }
    }
  }
  return out;
}

int64_t Windows::pad_high(int64_t input_size) const {
  return std::max<int64_t>(0, position(count - 1, size - 1) + 1 - input_size);
}

Value pad_for(Value x, int64_t dim, const Windows& windows, Value padding) {
  const int64_t high = windows.pad_high(x.dim(dim));
  if (windows.pad == 0 && high == 0) return x;
  Dims low(x.rank(), 0), highs(x.rank(), 0);
  low[dim] = windows.pad;
  highs[dim] = high;
  return x.builder().pad(x, padding, low, highs);
}

Value element(Value padded, int64_t dim, const Windows& windows, int64_t k) {
  const int64_t start = k * windows.dilation;
  return slice_dim(padded, dim, start, start + (windows.count - 1) * windows.stride + 1,
                   windows.stride);
}

Value place(Value values, int64_t dim, const Windows& windows, int64_t k, int64_t size) {
  Dims low(values.rank(), 0), high(values.rank(), 0), interior(values.rank(), 0);
  low[dim] = windows.position(0, k);
  high[dim] = size - windows.position(windows.count - 1, k) - 1;
  interior[dim] = windows.stride - 1;
  Builder& b = values.builder();
  return b.pad(values, b.constant_int(values.dtype(), 0), low, high, interior);
}

Dims expand_ints(const Dims& given, size_t n) {
  return given.size() == 1 ? Dims(n, given[0]) : given;
}

}  // namespace torch_tpu::lowering
