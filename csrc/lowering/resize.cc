// Resizing of images: each mode is a linear map along each spatial dimension, its gradient the
// transposed map. Source positions are computed in the dtype in which PyTorch computes them, since
// which element is nearest depends on their rounding.
#include <algorithm>
#include <cmath>

#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/taps.h"

namespace torch_tpu::lowering {
namespace {

enum class Mode : uint8_t { Nearest, NearestExact, Linear, Cubic };

/// What one dimension is resized from and to. `scale` is the caller's factor, if it gave one.
struct Resize {
  int64_t size, count;
  bool align_corners = false;
  std::optional<double> scale = {};
};

/// Input elements per output element.
template <class T>
T step_of(const Resize& r) {
  if (r.align_corners) {
    return r.count > 1 ? static_cast<T>(r.size - 1) / static_cast<T>(r.count - 1) : T(0);
  }
  if (r.scale && *r.scale > 0.0) return static_cast<T>(1.0 / *r.scale);
  return static_cast<T>(r.size) / static_cast<T>(r.count);
}

template <class T>
T source_position(const Resize& r, T step, int64_t i) {
  return r.align_corners ? step * static_cast<T>(i) : step * (static_cast<T>(i) + T(0.5)) - T(0.5);
}

template <class T>
std::vector<Tap> nearest_row(const Resize& r, bool exact, int64_t i) {
  const T position = (static_cast<T>(i) + (exact ? T(0.5) : T(0))) * step_of<T>(r);
  return {{std::min(static_cast<int64_t>(std::floor(position)), r.size - 1), 1.0}};
}

template <class T>
std::vector<Tap> linear_row(const Resize& r, int64_t i) {
  if (r.size == r.count) return {{i, 1.0}};
  const T position = std::max(source_position(r, step_of<T>(r), i), T(0));
  const int64_t first = std::min(static_cast<int64_t>(position), r.size - 1);
  const T second_weight = std::clamp(position - static_cast<T>(first), T(0), T(1));
  return {{first, T(1) - second_weight}, {std::min(first + 1, r.size - 1), second_weight}};
}

/// Keys' cubic convolution with a = -0.75: weights of the four neighbours at distance t past the
/// second.
template <class T>
std::array<T, 4> cubic_weights(T t) {
  const T a = T(-0.75);
  const auto near = [a](T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  const auto far = [a](T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

template <class T>
std::vector<Tap> cubic_row(const Resize& r, int64_t i) {
  const T position = source_position(r, step_of<T>(r), i);
  const int64_t base = std::min(static_cast<int64_t>(std::floor(position)), r.size - 1);
  const T t = std::clamp(position - static_cast<T>(base), T(0), T(1));
  const std::array<T, 4> weights = cubic_weights(t);
  std::vector<Tap> row;
  for (int64_t k = 0; k < 4; ++k) {
    row.push_back({std::clamp<int64_t>(base - 1 + k, 0, r.size - 1), weights[k]});
  }
  return row;
}

template <class T>
Taps rows_of(Mode mode, const Resize& r) {
  Taps rows(r.count);
  for (int64_t i = 0; i < r.count; ++i) {
    switch (mode) {
      case Mode::Nearest:
      case Mode::NearestExact:
        rows[i] = nearest_row<T>(r, mode == Mode::NearestExact, i);
        break;
      case Mode::Linear:
        rows[i] = linear_row<T>(r, i);
        break;
      case Mode::Cubic:
        rows[i] = cubic_row<T>(r, i);
        break;
    }
  }
  return rows;
}

// ---- antialiased: a filter as wide as the output element

using Filter = double (*)(double);

double triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

/// Keys' cubic with a = -0.5, as Pillow's.
double bicubic(double x) {
  const double a = -0.5;
  x = std::abs(x);
  if (x < 1.0) return ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0;
  if (x < 2.0) return ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a;
  return 0.0;
}

double sinc(double x) { return x == 0.0 ? 1.0 : std::sin(M_PI * x) / (M_PI * x); }
double lanczos(double x) { return std::abs(x) < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }

template <class T>
Taps filter_rows(Filter filter, double radius, const Resize& r) {
  const T step = step_of<T>(r);
  const T support = static_cast<T>(radius) * std::max(step, T(1));
  const T inverse = step >= T(1) ? T(1) / step : T(1);
  Taps rows(r.count);
  for (int64_t i = 0; i < r.count; ++i) {
    const T center = step * (static_cast<T>(i) + T(0.5));
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + T(0.5)), 0);
    const int64_t end = std::min(static_cast<int64_t>(center + support + T(0.5)), r.size);
    T total = T(0);
    for (int64_t k = first; k < end; ++k) {
      const T x = (static_cast<T>(k) - center + T(0.5)) * inverse;
      rows[i].push_back({k, filter(x)});
      total += static_cast<T>(rows[i].back().weight);
    }
    for (Tap& tap : rows[i]) {
      if (total != T(0)) tap.weight /= total;
    }
  }
  return rows;
}

// ---- the operators

/// The last n dimensions of a resize between these shapes. `align` is the position of align_corners
/// or negative; the scales follow one another from position `scales` on.
std::vector<Resize> resizes(Context& ctx, size_t n, const Dims& input, const Dims& output,
                            int align, int scales) {
  std::vector<Resize> out(n);
  for (size_t i = 0; i < n; ++i) {
    const size_t dim = input.size() - n + i;
    out[i] = {.size = input[dim], .count = output[dim]};
    if (align >= 0) out[i].align_corners = ctx.flag(align);
    if (ctx.has(scales + i)) out[i].scale = ctx.number(scales + i);
  }
  return out;
}

/// Makes the rows of one dimension, in the precision in which values of `dtype` are resized.
using MakeRows = Taps (*)(const Resize&, DType dtype);

template <Mode mode>
Taps interpolation(const Resize& r, DType dtype) {
  return dtype == DType::F64 ? rows_of<double>(mode, r) : rows_of<float>(mode, r);
}

constexpr double kLinearRadius = 1.0, kCubicRadius = 2.0, kLanczosRadius = 3.0;

Taps antialiased_linear(const Resize& r, DType dtype) {
  return dtype == DType::F64 ? filter_rows<double>(triangle, kLinearRadius, r)
                             : filter_rows<float>(triangle, kLinearRadius, r);
}
Taps antialiased_cubic(const Resize& r, DType dtype) {
  return dtype == DType::F64 ? filter_rows<double>(bicubic, kCubicRadius, r)
                             : filter_rows<float>(bicubic, kCubicRadius, r);
}
Taps antialiased_lanczos(const Resize& r, DType dtype) {
  return dtype == DType::F64 ? filter_rows<double>(lanczos, kLanczosRadius, r)
                             : filter_rows<float>(lanczos, kLanczosRadius, r);
}

/// Applies the map to an image of bytes as PyTorch does: weights are rounded to integers that fit
/// 16 bits, and each pass rounds to bytes.
Value resize_bytes(Value x, int64_t dim, Taps rows) {
  Builder& b = x.builder();
  double largest = 0.0;
  for (const auto& row : rows) {
    for (const Tap& tap : row) largest = std::max(largest, tap.weight);
  }
  constexpr int kMaxBits = 22;
  int bits = 0;
  while (bits < kMaxBits && std::floor(0.5 + std::ldexp(largest, bits + 1)) < 0x1p15) ++bits;
  for (auto& row : rows) {
    for (Tap& tap : row) tap.weight = std::round(std::ldexp(tap.weight, bits));
  }
  const Value sum = apply_taps(convert(x, DType::S32), dim, rows);
  const Value half = constant_int_like(sum, (int64_t{1} << bits) >> 1);
  const Value rounded =
      b.binary("shift_right_arithmetic", sum + half, constant_int_like(sum, bits));
  return b.clamp(b.constant_int(DType::S32, 0), rounded, b.constant_int(DType::S32, 255));
}

/// (self, output_size, [align_corners,] scales...)
template <size_t n, MakeRows make_rows, bool copies>
Values resize(Context& ctx) {
  const Value image = ctx.tensor(0);
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const std::vector<Resize> dims =
      resizes(ctx, n, image.dims(), ctx.out().dims, copies ? -1 : 2, copies ? 2 : 3);
  const bool bytes = !copies && is_int(image.dtype());
  Value x = copies ? image : convert(image, Context::compute_dtype(image.dtype()));
  for (size_t i = n; i-- > 0;) {
    const int64_t dim = x.rank() - static_cast<int64_t>(n - i);
    const Taps rows = make_rows(dims[i], bytes ? DType::F64 : x.dtype());
    x = bytes ? resize_bytes(x, dim, rows) : apply_taps(x, dim, rows);
  }
  return {x};
}

/// (grad_output, output_size, input_size, [align_corners,] scales...)
template <size_t n, MakeRows make_rows, bool copies>
Values resize_backward(Context& ctx) {
  const Value grad = ctx.tensor(0);
  if (ctx.out().numel() == 0 || grad.numel() == 0) return {ctx.b.zeros(ctx.out())};
  const std::vector<Resize> dims =
      resizes(ctx, n, ctx.out().dims, grad.dims(), copies ? -1 : 3, copies ? 3 : 4);
  Value x = convert(grad, Context::compute_dtype(grad.dtype()));
  for (size_t i = 0; i < n; ++i) {
    const Taps rows = make_rows(dims[i], x.dtype());
    x = apply_taps(x, x.rank() - static_cast<int64_t>(n - i), transposed(rows, dims[i].size));
  }
  return {x};
}

/// The operator and its gradient. The caller's scales decide which elements are read.
template <size_t n, MakeRows make_rows, bool copies>
void add_mode(Table& table, std::string_view name, std::string_view backward) {
  std::vector<int> scales, backward_scales;
  for (int i = 0; i < static_cast<int>(n); ++i) {
    scales.push_back((copies ? 2 : 3) + i);
    backward_scales.push_back((copies ? 3 : 4) + i);
  }
  table.push_back({.name = name, .lower = resize<n, make_rows, copies>, .static_args = scales});
  table.push_back({.name = backward,
                   .lower = resize_backward<n, make_rows, copies>,
                   .static_args = backward_scales});
}

}  // namespace

Table resize_table() {
  Table table;
  add_mode<1, interpolation<Mode::Nearest>, true>(table, "aten::upsample_nearest1d",
                                                  "aten::upsample_nearest1d_backward");
  add_mode<2, interpolation<Mode::Nearest>, true>(table, "aten::upsample_nearest2d",
                                                  "aten::upsample_nearest2d_backward");
  add_mode<3, interpolation<Mode::Nearest>, true>(table, "aten::upsample_nearest3d",
                                                  "aten::upsample_nearest3d_backward");
  add_mode<1, interpolation<Mode::NearestExact>, true>(table, "aten::_upsample_nearest_exact1d",
                                                       "aten::_upsample_nearest_exact1d_backward");
  add_mode<2, interpolation<Mode::NearestExact>, true>(table, "aten::_upsample_nearest_exact2d",
                                                       "aten::_upsample_nearest_exact2d_backward");
  add_mode<3, interpolation<Mode::NearestExact>, true>(table, "aten::_upsample_nearest_exact3d",
                                                       "aten::_upsample_nearest_exact3d_backward");
  add_mode<1, interpolation<Mode::Linear>, false>(table, "aten::upsample_linear1d",
                                                  "aten::upsample_linear1d_backward");
  add_mode<2, interpolation<Mode::Linear>, false>(table, "aten::upsample_bilinear2d",
                                                  "aten::upsample_bilinear2d_backward");
  add_mode<3, interpolation<Mode::Linear>, false>(table, "aten::upsample_trilinear3d",
                                                  "aten::upsample_trilinear3d_backward");
  add_mode<2, interpolation<Mode::Cubic>, false>(table, "aten::upsample_bicubic2d",
                                                 "aten::upsample_bicubic2d_backward");
  add_mode<2, antialiased_linear, false>(table, "aten::_upsample_bilinear2d_aa",
                                         "aten::_upsample_bilinear2d_aa_backward");
  add_mode<2, antialiased_cubic, false>(table, "aten::_upsample_bicubic2d_aa",
                                        "aten::_upsample_bicubic2d_aa_backward");
  add_mode<2, antialiased_lanczos, false>(table, "aten::_upsample_lanczos2d_aa",
                                          "aten::_upsample_lanczos2d_aa_backward");
  return table;
}

}  // namespace torch_tpu::lowering
