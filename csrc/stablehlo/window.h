// Internal: sizes that windows give, shared by convolutions and window reductions.
#pragma once

#include <algorithm>
#include <cstdint>

namespace torch_tpu::stablehlo {

/// What a dilation makes of a size.
inline int64_t dilated(int64_t size, int64_t dilation) {
  return size == 0 ? 0 : (size - 1) * dilation + 1;
}

/// How many windows fit, at this stride.
inline int64_t window_count(int64_t size, int64_t window, int64_t stride) {
  return size <= 0 || window > size ? 0 : (size - window) / stride + 1;
}

/// `values`, or `size` times `fallback` where the caller gave none.
template <class Vector, class Element>
Vector or_default(const Vector& values, size_t size, Element fallback) {
  return values.empty() ? Vector(size, fallback) : values;
}

}  // namespace torch_tpu::stablehlo
