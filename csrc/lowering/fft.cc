// Fourier transforms over the last dimensions. The torch side (csrc/aten/fft.cc) puts them there.
#include <algorithm>
#include <cmath>

#include "lowering/cast.h"
#include "lowering/context.h"
#include "lowering/families.h"

namespace torch_tpu::lowering {
namespace {

constexpr int64_t kMostDims = 3;  // that one operation transforms

/// The complex transform of dimensions [first, end), by groups of at most three.
Value complex_fft(Value x, std::string_view kind, int64_t first, int64_t end) {
  for (; first < end; first += kMostDims) {
    const int64_t stop = std::min(first + kMostDims, end);
    Dims forth, back(x.rank());
    for (int64_t d = 0; d < x.rank(); ++d) {
      if (d < first || d >= stop) forth.push_back(d);
    }
    for (int64_t d = first; d < stop; ++d) forth.push_back(d);
    for (int64_t d = 0; d < x.rank(); ++d) back[forth[d]] = d;
    const Dims length(x.dims().begin() + first, x.dims().begin() + stop);
    x = transpose(x.builder().fft(transpose(x, forth), kind, length), back);
  }
  return x;
}

/// PyTorch's fft_norm_mode: 0 leaves the sums as they are, 1 divides by the root of their length n,
/// 2 by n. `already` is what XLA has multiplied by.
Value normalized(Value x, int64_t mode, double n, double already) {
  const double scale = (mode == 0 ? 1.0 : mode == 1 ? 1.0 / std::sqrt(n) : 1.0 / n) / already;
  if (scale == 1.0) return x;
  return x * scale;
}

/// Number of elements of the last `rank` dimensions.
double signal_size(const Dims& dims, int64_t rank) {
  double n = 1;
  for (auto d = dims.end() - rank; d != dims.end(); ++d) n *= static_cast<double>(*d);
  return n;
}

/// Arguments: self, rank, normalization, forward.
Values fft_c2c(Context& ctx) {
  const Value x = ctx.tensor(0);
  const int64_t rank = ctx.integer(1);
  if (x.numel() == 0) return {x};
  const bool forward = ctx.flag(3);
  const double n = signal_size(x.dims(), rank);
  const Value y = complex_fft(x, forward ? "FFT" : "IFFT", x.rank() - rank, x.rank());
  return {normalized(y, ctx.integer(2), n, forward ? 1.0 : 1.0 / n)};
}

/// Arguments: self, rank, normalization, onesided.
Values fft_r2c(Context& ctx) {
  const Value x = ctx.tensor(0);
  if (ctx.out().numel() == 0) return {ctx.b.zeros(ctx.out())};
  const int64_t rank = ctx.integer(1), last = x.rank() - 1;
  Value y;
  if (ctx.flag(3)) {
    y = complex_fft(ctx.b.fft(x, "RFFT", {x.dim(last)}), "FFT", x.rank() - rank, last);
  } else {
    y = complex_fft(cast(x, ctx.out().dtype), "FFT", x.rank() - rank, x.rank());
  }
  return {normalized(y, ctx.integer(2), signal_size(x.dims(), rank), 1.0)};
}

/// Arguments: self, rank, normalization, last_dim_size.
Values fft_c2r(Context& ctx) {
  const Type& out = ctx.out();
  if (out.numel() == 0) return {ctx.b.zeros(out)};
  const int64_t rank = ctx.integer(1), size = ctx.integer(3);
  const Value given = ctx.tensor(0);
  const int64_t last = given.rank() - 1;
  const Value half = slice_dim(given, last, 0, size / 2 + 1);
  const Value y = ctx.b.fft(complex_fft(half, "IFFT", given.rank() - rank, last), "IRFFT", {size});
  const double n = signal_size(out.dims, rank);
  return {normalized(y, ctx.integer(2), n, 1.0 / n)};
}

}  // namespace

Table fft_table() {
  return {
      {"torch_tpu::fft_c2c", fft_c2c},
      {"torch_tpu::fft_r2c", fft_r2c},
      {"torch_tpu::fft_c2r", fft_c2r},
  };
}

}  // namespace torch_tpu::lowering
