// Linear maps and windows along one dimension, made of slices and gathers with constant indices:
// what resizing, padding, adaptive pooling and im2col have in common.
#pragma once

#include "lowering/op.h"
#include "stablehlo/math.h"

namespace torch_tpu::lowering {

/// x taken at these positions of `dim`, like torch.index_select with constant indices.
Value take(Value x, int64_t dim, const Dims& indices);

/// One term of a row: weight * x[index].
struct Tap {
  int64_t index = 0;
  double weight = 1.0;
};

/// A linear map: element i of the result is the sum over the taps of rows[i].
using Taps = std::vector<std::vector<Tap>>;

/// Applies the map along `dim`. Only what a row names is read: a NaN elsewhere does not reach it.
Value apply_taps(Value x, int64_t dim, const Taps& rows);

/// The transposed map, for gradients: `size` is the size of the map's input.
Taps transposed(const Taps& rows, int64_t size);

/// A dimension's windows: window o covers positions o * stride - pad + k * dilation, k < size.
struct Windows {
  int64_t size = 1, stride = 1, pad = 0, dilation = 1;
  int64_t count = 0;  // number of windows

  int64_t position(int64_t window, int64_t k) const { return window * stride - pad + k * dilation; }
  /// Padding needed after an input of this size; 0 if the last window ends before its end.
  int64_t pad_high(int64_t input_size) const;
};

/// x padded along `dim`, so that every position of every window is there.
Value pad_for(Value x, int64_t dim, const Windows& windows, Value padding);
/// The k-th element of every window, from an x padded by pad_for.
Value element(Value padded, int64_t dim, const Windows& windows, int64_t k);
/// The transpose of element() after pad_for with zeros: puts the values where they came from in an
/// input of `size`, zero elsewhere.
Value place(Value values, int64_t dim, const Windows& windows, int64_t k, int64_t size);

/// int[n] arguments may be given as one number.
Dims expand_ints(const Dims& given, size_t n);

}  // namespace torch_tpu::lowering
