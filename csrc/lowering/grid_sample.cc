// Sampling of images at the positions of a grid, and the gradients. In each dimension a position
// gives a few taps (an index, a weight); a sample is the sum over all combinations of taps.
#include <algorithm>

#include "lowering/context.h"
#include "lowering/families.h"

namespace torch_tpu::lowering {
namespace {

enum Interpolation : int64_t { kBilinear = 0, kNearest = 1, kBicubic = 2 };
enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

struct Sampling {
  int64_t interpolation, padding;
  bool align_corners;
};

/// A position along one dimension, in elements, and its derivative by the grid's coordinate.
struct Position {
  Value at, derivative;
};

/// All [N, P], P being the number of samples of an image.
struct Tap {
  Value index;               // S32, inside the image
  Value inside;              // Pred: false where the tap counts as zero
  Value weight, derivative;  // of the weight, by the grid's coordinate
};

Value constant(Value x, double value) { return constant_like(x, value); }

Position unnormalized(Value coordinate, int64_t size, bool align_corners) {
  const double n = static_cast<double>(size);
  if (align_corners) {
    return {(coordinate + 1.0) / 2.0 * (n - 1.0), constant(coordinate, (n - 1.0) / 2.0)};
  }
  return {((coordinate + 1.0) * n - 1.0) / 2.0, constant(coordinate, n / 2.0)};
}

Position clipped(const Position& p, int64_t size) {
  const Value zero = constant(p.at, 0.0), last = constant(p.at, static_cast<double>(size - 1));
  const Value free = logical_and(gt(p.at, zero), lt(p.at, last));
  return {p.at.builder().clamp(zero, p.at, last), where(free, p.derivative, zero)};
}

/// Reflects at low / 2 and high / 2 until the position lies between.
Position reflected(const Position& p, int64_t twice_low, int64_t twice_high) {
  if (twice_low == twice_high) return {zeros_like(p.at), zeros_like(p.at)};
  const double low = static_cast<double>(twice_low) / 2.0;
  const double span = static_cast<double>(twice_high - twice_low) / 2.0;
  const Value distance = p.at - low, size = abs(distance);
  const Value extra = remainder(size, constant(size, span));
  const Value flips = floor(size / span);
  const Value odd = ne(remainder(flips, constant(flips, 2.0)), 0.0);
  const Value turned = logical_xor(odd, lt(distance, 0.0));
  return {where(odd, span - extra, extra) + low, where(turned, -p.derivative, p.derivative)};
}

Position padded(const Position& p, int64_t size, const Sampling& s) {
  if (s.padding == kZeros) return p;
  if (s.padding == kBorder) return clipped(p, size);
  return clipped(s.align_corners ? reflected(p, 0, 2 * (size - 1)) : reflected(p, -1, 2 * size - 1),
                 size);
}

/// A tap at an integral position.
Tap make_tap(Value at, int64_t size, Value weight, Value derivative) {
  const Value zero = constant(at, 0.0), last = constant(at, static_cast<double>(size - 1));
  const Value inside = logical_and(ge(at, zero), le(at, last));
  const Value safe = where(inside, at, zero);  // NaN is outside
  return {convert(safe, DType::S32), inside, weight, derivative};
}

/// Keys' cubic with a = -0.75 and its derivative, at distances t + 1, t, 1 - t, 2 - t.
std::array<std::array<Value, 2>, 4> cubic(Value t) {
  const double a = -0.75;
  const auto near = [a](Value x) { return ((a + 2) * x - (a + 3)) * x * x + 1.0; };
  const auto near_slope = [a](Value x) { return (3 * (a + 2) * x - 2 * (a + 3)) * x; };
  const auto far = [a](Value x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  const auto far_slope = [a](Value x) { return (3 * a * x - 10 * a) * x + 8 * a; };
  const Value first = t + 1.0, third = 1.0 - t, fourth = 2.0 - t;
  return {{{far(first), far_slope(first)},
           {near(t), near_slope(t)},
           {near(third), -near_slope(third)},
           {far(fourth), -far_slope(fourth)}}};
}

std::vector<Tap> taps_of(Value coordinate, int64_t size, const Sampling& s) {
  const Position raw = unnormalized(coordinate, size, s.align_corners);
  if (s.interpolation == kBicubic) {
    const Value base = floor(raw.at);
    const auto weights = cubic(raw.at - base);
    std::vector<Tap> taps;
    for (int k = 0; k < 4; ++k) {
      const Position at = padded({base + static_cast<double>(k - 1), raw.derivative}, size, s);
      taps.push_back(make_tap(at.at, size, weights[k][0], weights[k][1] * raw.derivative));
    }
    return taps;
  }
  const Position p = padded(raw, size, s);
  if (s.interpolation == kNearest) {
    return {make_tap(round_even(p.at), size, ones_like(p.at), zeros_like(p.at))};
  }
  const Value base = floor(p.at), t = p.at - base;
  return {make_tap(base, size, 1.0 - t, -p.derivative),
          make_tap(base + 1.0, size, t, p.derivative)};
}

/// One combination of taps, one per dimension.
struct Corner {
  Value index;           // flat, [N, P]
  Value inside, weight;  // [N, P]
  std::vector<Value>
      derivatives;  // of the weight by each coordinate, in the grid's order (x first)
};

struct Grid {
  std::vector<Corner> corners;
  int64_t images, samples;
};

Grid corners_of(Value grid, const Dims& input, const Sampling& s) {
  const size_t n = input.size() - 2;
  const int64_t images = grid.dim(0), samples = grid.numel() / (images * static_cast<int64_t>(n));
  const Value flat = reshape(grid, {images, samples, static_cast<int64_t>(n)});
  std::vector<std::vector<Tap>> taps(n);  // by spatial dimension of the input
  for (size_t i = 0; i < n; ++i) {
    const auto coordinate = static_cast<int64_t>(n - 1 - i);
    const Value c = squeeze(slice_dim(flat, 2, coordinate, coordinate + 1), 2);
    taps[i] = taps_of(c, input[i + 2], s);
  }
  Grid out{{}, images, samples};
  std::vector<size_t> choice(n, 0);
  while (true) {
    Corner corner;
    for (size_t i = 0; i < n; ++i) {
      const Tap& tap = taps[i][choice[i]];
      corner.index =
          i == 0 ? tap.index : corner.index * static_cast<double>(input[i + 2]) + tap.index;
      corner.inside = i == 0 ? tap.inside : logical_and(corner.inside, tap.inside);
      corner.weight = i == 0 ? tap.weight : corner.weight * tap.weight;
    }
    for (size_t d = n; d-- > 0;) {  // coordinate x belongs to the last dimension
      Value product = taps[d][choice[d]].derivative;
      for (size_t i = 0; i < n; ++i) {
        if (i != d) product = product * taps[i][choice[i]].weight;
      }
      corner.derivatives.push_back(product);
    }
    out.corners.push_back(std::move(corner));
    size_t i = n;
    while (i > 0 && ++choice[i - 1] == taps[i - 1].size()) choice[--i] = 0;
    if (i == 0) return out;
  }
}

/// [N, C, S] at flat positions [N, P] -> [N, C, P]
Value sample(Value image, Value index) {
  stablehlo::GatherDims dims;
  dims.offset_dims = {1};
  dims.collapsed_slice_dims = {2};
  dims.operand_batching_dims = {0};
  dims.start_indices_batching_dims = {0};
  dims.start_index_map = {2};
  dims.index_vector_dim = 2;
  dims.slice_sizes = {1, image.dim(1), 1};
  return image.builder().gather(image, index, dims);
}

/// Adds [N, C, P] into zeros of [N, C, size] at flat positions [N, P].
Value scatter(Value updates, Value index, int64_t size) {
  Builder& b = updates.builder();
  stablehlo::ScatterDims dims;
  dims.update_window_dims = {1};
  dims.inserted_window_dims = {2};
  dims.input_batching_dims = {0};
  dims.scatter_indices_batching_dims = {0};
  dims.scatter_dims_to_operand_dims = {2};
  dims.index_vector_dim = 2;
  return b.scatter(
      b.zeros({updates.dtype(), {updates.dim(0), updates.dim(1), size}}), index, updates, dims,
      [](Builder&, std::span<const Value> args) -> Values { return {args[0] + args[1]}; });
}

Value flat_image(Value x) {
  return reshape(x, {x.dim(0), x.dim(1), x.numel() / (x.dim(0) * x.dim(1))});
}

Value compute(Value x) { return convert(x, Context::compute_dtype(x.dtype())); }

Sampling sampling(Context& ctx, size_t first) {
  return {ctx.integer(first), ctx.integer(first + 1), ctx.flag(first + 2)};
}

/// (input, grid, interpolation_mode, padding_mode, align_corners)
Values grid_sample(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Value image = compute(ctx.tensor(0));
  const Grid grid = corners_of(compute(ctx.tensor(1)), image.dims(), sampling(ctx, 2));
  Value sum;
  for (const Corner& corner : grid.corners) {
    const Value values = sample(flat_image(image), corner.index);
    const Value term =
        where(unsqueeze(corner.inside, 1), values * unsqueeze(corner.weight, 1), 0.0);
    sum = sum ? sum + term : term;
  }
  return {reshape(sum, ctx.out().dims)};
}

/// (grad_output, input, grid, interpolation_mode, padding_mode, align_corners, output_mask) ->
/// gradients of input and grid
Values grid_sample_backward(Context& ctx) {
  const std::vector<bool>& wanted = ctx.flags(6);
  const Value image = compute(ctx.tensor(1)), coordinates = compute(ctx.tensor(2));
  Values results(2);
  if (ctx.tensor(0).numel() == 0) {
    if (wanted[0]) results[0] = zeros_like(image);
    if (wanted[1]) results[1] = zeros_like(coordinates);
    return results;
  }
  const Grid grid = corners_of(coordinates, image.dims(), sampling(ctx, 3));
  const Value grad = reshape(compute(ctx.tensor(0)), {grid.images, image.dim(1), grid.samples});
  if (wanted[0]) {
    Values updates, indices;
    for (const Corner& corner : grid.corners) {
      updates.push_back(
          where(unsqueeze(corner.inside, 1), grad * unsqueeze(corner.weight, 1), 0.0));
      indices.push_back(corner.index);
    }
    const Value all = ctx.b.concatenate(updates, 2), at = ctx.b.concatenate(indices, 1);
    results[0] = reshape(scatter(all, at, flat_image(image).dim(2)), image.dims());
  }
  if (wanted[1]) {
    Values sums(image.rank() - 2);
    for (const Corner& corner : grid.corners) {
      // What the output's gradient is worth per unit of this corner's weight.
      const Value products = grad * sample(flat_image(image), corner.index);
      const Value worth = where(corner.inside, reduce_sum(products, {1}), 0.0);
      for (size_t d = 0; d < sums.size(); ++d) {
        const Value term = worth * corner.derivatives[d];
        sums[d] = sums[d] ? sums[d] + term : term;
      }
    }
    for (Value& sum : sums) sum = unsqueeze(sum, -1);
    results[1] = reshape(ctx.b.concatenate(sums, 2), coordinates.dims());
  }
  return results;
}

}  // namespace

Table grid_sample_table() {
  return {
      {.name = "aten::grid_sampler_2d", .lower = grid_sample},
      {.name = "aten::grid_sampler_3d", .lower = grid_sample},
      {.name = "aten::grid_sampler_2d_backward", .lower = grid_sample_backward},
      {.name = "aten::grid_sampler_3d_backward", .lower = grid_sample_backward},
  };
}

}  // namespace torch_tpu::lowering
