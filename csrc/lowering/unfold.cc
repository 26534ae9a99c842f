// Rearrangements of images: im2col and its inverse, pixel and channel shuffles.
#include "lowering/context.h"
#include "lowering/families.h"
#include "lowering/taps.h"

namespace torch_tpu::lowering {
namespace {

/// Which arguments describe the windows, in the order kernel_size, dilation, padding, stride.
std::array<Windows, 2> image_windows(Context& ctx, int first, const Dims& image) {
  const Dims kernel = expand_ints(ctx.ints(first), 2);
  const Dims dilation = expand_ints(ctx.ints(first + 1), 2);
  const Dims pad = expand_ints(ctx.ints(first + 2), 2);
  const Dims stride = expand_ints(ctx.ints(first + 3), 2);
  std::array<Windows, 2> windows;
  for (int i = 0; i < 2; ++i) {
    const int64_t reach = dilation[i] * (kernel[i] - 1) + 1;
    const int64_t count = (image[image.size() - 2 + i] + 2 * pad[i] - reach) / stride[i] + 1;
    windows[i] = {kernel[i], stride[i], pad[i], dilation[i], count};
  }
  return windows;
}

/// Replaces `dim` by [element of the window, window].
Value unfold_dim(Value x, int64_t dim, const Windows& w) {
  Builder& b = x.builder();
  const Value padded = pad_for(x, dim, w, b.constant_int(x.dtype(), 0));
  Values elements;
  for (int64_t k = 0; k < w.size; ++k)
    elements.push_back(unsqueeze(element(padded, dim, w, k), dim));
  return b.concatenate(elements, dim);
}

/// Adds [element of the window at dim, window at dim + 1] up to a dimension of `size`.
Value fold_dim(Value x, int64_t dim, const Windows& w, int64_t size) {
  Value sum;
  for (int64_t k = 0; k < w.size; ++k) {
    const Value part = place(squeeze(slice_dim(x, dim, k, k + 1), dim), dim, w, k, size);
    sum = sum ? sum + part : part;
  }
  return sum;
}

/// Image tensors may lack the batch dimension.
Value batched(Value x, int64_t rank) { return x.rank() == rank ? x : unsqueeze(x, 0); }

/// (self, kernel_size, dilation, padding, stride)
Values im2col(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Value x = batched(ctx.tensor(0), 4);
  const auto [rows, columns] = image_windows(ctx, 1, x.dims());
  const Value windows = unfold_dim(unfold_dim(x, 2, rows), 4, columns);  // N C kh oh kw ow
  return {reshape(transpose(windows, {0, 1, 2, 4, 3, 5}), ctx.out().dims)};
}

/// (self, output_size, kernel_size, dilation, padding, stride)
Values col2im(Context& ctx) {
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const Value columns_in = batched(ctx.tensor(0), 3);
  const Value x = convert(columns_in, Context::compute_dtype(columns_in.dtype()));
  const Dims size = expand_ints(ctx.ints(1), 2);
  const auto [rows, columns] = image_windows(ctx, 2, size);
  const int64_t channels = x.dim(1) / (rows.size * columns.size);
  const Value split =
      reshape(x, {x.dim(0), channels, rows.size, columns.size, rows.count, columns.count});
  const Value windows = transpose(split, {0, 1, 2, 4, 3, 5});  // N C kh oh kw ow
  const Value image = fold_dim(fold_dim(windows, 4, columns, size[1]), 2, rows, size[0]);
  return {reshape(image, ctx.out().dims)};
}

/// Leading dimensions of an image tensor as one: [planes..., C, H, W] -> [N, C, H, W].
Value image_batch(Value x) {
  int64_t leading = 1;
  for (int64_t i = 0; i < x.rank() - 3; ++i) leading *= x.dim(i);
  return reshape(x, {leading, x.dim(x.rank() - 3), x.dim(x.rank() - 2), x.dim(x.rank() - 1)});
}

Values pixel_shuffle(Context& ctx) {
  const Value x = image_batch(ctx.tensor(0));
  const int64_t r = ctx.integer(1);
  const Value split = reshape(x, {x.dim(0), x.dim(1) / (r * r), r, r, x.dim(2), x.dim(3)});
  return {reshape(transpose(split, {0, 1, 4, 2, 5, 3}), ctx.out().dims)};
}

Values pixel_unshuffle(Context& ctx) {
  const Value x = image_batch(ctx.tensor(0));
  const int64_t r = ctx.integer(1);
  const Value split = reshape(x, {x.dim(0), x.dim(1), x.dim(2) / r, r, x.dim(3) / r, r});
  return {reshape(transpose(split, {0, 1, 3, 5, 2, 4}), ctx.out().dims)};
}

Values channel_shuffle(Context& ctx) {
  const Value x = ctx.tensor(0);
  const int64_t groups = ctx.integer(1);
  if (x.numel() == 0) return {x};
  const Value split =
      reshape(x, {x.dim(0), groups, x.dim(1) / groups, x.numel() / (x.dim(0) * x.dim(1))});
  return {reshape(transpose(split, {0, 2, 1, 3}), x.dims())};
}

}  // namespace

Table unfold_table() {
  return {
      {.name = "aten::im2col", .lower = im2col},
      {.name = "aten::col2im", .lower = col2im},
      {.name = "aten::pixel_shuffle", .lower = pixel_shuffle},
      {.name = "aten::pixel_unshuffle", .lower = pixel_unshuffle},
      {.name = "aten::channel_shuffle", .lower = channel_shuffle},
  };
}

}  // namespace torch_tpu::lowering
