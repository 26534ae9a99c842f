// Matrix products. Half-precision products accumulate in f32 and round once, after the addition.
#include <algorithm>

#include "lowering/families.h"
#include "lowering/linalg.h"

namespace torch_tpu::lowering {
namespace {

using stablehlo::Builder;
using stablehlo::DotDims;

/// The dtype of a product before the caller rounds it. Pred counts: any != 0 is true.
DType accumulator(DType dtype) {
  return dtype == DType::Pred ? DType::S32 : Context::compute_dtype(dtype);
}

/// a [..., k] x b [n, k], where b is in memory so, as a layer's weight is: computed as
/// b x transposed a where a and the product are smaller than b, since XLA's CPU compiler would
/// transpose b in memory. Null if that does not pay.
Value product_by_rows(Context& ctx, Value a, Value b, const DotDims& dims, DType accumulated) {
  int64_t contracted = dims.rhs_contract[0];
  if (const auto source = ctx.b.transposed_from(b)) {
    b = source->first;
    contracted = source->second[static_cast<size_t>(contracted)];
  }
  const int64_t k = b.dim(contracted), n = b.dim(1 - contracted);
  if (contracted != 1 || a.numel() == 0 || n == 0) return {};
  const int64_t rows = a.numel() / k;
  if (rows * (k + n) >= n * k) return {};
  const Value y = ctx.b.dot_general(b, a, {{}, {}, {1}, dims.lhs_contract},
                                    ctx.precision(a.dtype()), accumulated);
  Dims order;
  for (int64_t d = 1; d < y.rank(); ++d) order.push_back(d);
  order.push_back(0);
  return ctx.b.transpose(y, order);
}

/// The product of integers of 64 bits, which TPUs have no dot_general of.
Value sum_of_products(Value a, Value b, const DotDims& dims) {
  // Both factors with all dimensions: batch, those of a alone, contracted, those of b alone.
  Dims all;
  Dims place_a(static_cast<size_t>(a.rank()), -1), place_b(static_cast<size_t>(b.rank()), -1);
  const auto next = [&](int64_t size) {
    all.push_back(size);
    return static_cast<int64_t>(all.size()) - 1;
  };
  const auto pair = [&](int64_t in_a, int64_t in_b) {
    place_a[in_a] = place_b[in_b] = next(a.dim(in_a));
  };
  for (size_t i = 0; i < dims.lhs_batch.size(); ++i) pair(dims.lhs_batch[i], dims.rhs_batch[i]);
  const auto is_contracted = [](const Dims& list, int64_t d) {
    return std::ranges::count(list, d);
  };
  for (int64_t d = 0; d < a.rank(); ++d) {
    if (place_a[d] < 0 && !is_contracted(dims.lhs_contract, d)) place_a[d] = next(a.dim(d));
  }
  Dims summed;
  for (size_t i = 0; i < dims.lhs_contract.size(); ++i) {
    summed.push_back(static_cast<int64_t>(all.size()));
    pair(dims.lhs_contract[i], dims.rhs_contract[i]);
  }
  for (int64_t d = 0; d < b.rank(); ++d) {
    if (place_b[d] < 0 && !is_contracted(dims.rhs_contract, d)) place_b[d] = next(b.dim(d));
  }
  Builder& builder = a.builder();
  return reduce_sum(
      builder.broadcast_in_dim(a, all, place_a) * builder.broadcast_in_dim(b, all, place_b),
      summed);
}

Value product(Context& ctx, Value a, Value b, const DotDims& dims) {
  if (a.dtype() != b.dtype()) {  // PyTorch's meta kernels leave this check to the backend
    throw stablehlo::BuildError("expected both factors to have the same dtype, but got " +
                                std::string(stablehlo::name(a.dtype())) + " and " +
                                std::string(stablehlo::name(b.dtype())) +
                                ". Convert one of them with .to(dtype).");
  }
  const DType accumulated = accumulator(a.dtype());
  if (a.dtype() == DType::Pred) {
    a = convert(a, accumulated);
    b = convert(b, accumulated);
  }
  if (accumulated == DType::S64) return sum_of_products(a, b, dims);
  if (dims.lhs_batch.empty() && b.rank() == 2 && dims.lhs_contract.size() == 1) {
    if (const Value y = product_by_rows(ctx, a, b, dims, accumulated)) return y;
  }
  return ctx.b.dot_general(a, b, dims, ctx.precision(a.dtype()), accumulated);
}

const DotDims kMatrixMatrix{{}, {}, {1}, {0}};
const DotDims kBatchedMatrices{{0}, {0}, {2}, {1}};
const DotDims kMatrixVector{{}, {}, {1}, {0}};
const DotDims kVectorVector{{}, {}, {0}, {0}};
/// [b, n, k] x [b, k, m] summed over the batch.
const DotDims kSumOfMatrices{{}, {}, {0, 2}, {0, 1}};

Value scaled(Context& ctx, Value x, size_t factor) {
  if (ctx.special(factor) == 1.0) return x;
  return x * ctx.scalar(factor, x.dtype());
}

/// beta * added + term, where beta = 0 does not read what is added: its NaN count for nothing.
Value add_to(Context& ctx, Value added, size_t beta, Value term) {
  if (ctx.special(beta) == 0.0) return term;
  added = broadcast_to(convert(added, term.dtype()), term.dims());
  if (ctx.special(beta) == 1.0) return added + term;
  const Value factor = ctx.scalar(beta, added.dtype());
  return where(eq(factor, zeros_like(factor)), zeros_like(added), factor * added) + term;
}

/// beta * added + alpha * product. As in BLAS, alpha = 0 does not read the product.
Value accumulate(Context& ctx, Value added, Value product, size_t beta, size_t alpha) {
  const bool unread = ctx.special(alpha) == 0.0;
  return add_to(ctx, added, beta, unread ? zeros_like(product) : scaled(ctx, product, alpha));
}

template <const DotDims& dims>
Values matmul(Context& ctx) {
  return {product(ctx, ctx.tensor(0), ctx.tensor(1), dims)};
}

/// (self, a, b, *, beta, alpha)
template <const DotDims& dims>
Values add_matmul(Context& ctx) {
  const Value ab = product(ctx, ctx.tensor(1), ctx.tensor(2), dims);
  return {accumulate(ctx, ctx.tensor(0), ab, 3, 4)};
}

/// (self, a, b, out_dtype, *, beta, alpha)
template <const DotDims& dims>
Values add_matmul_dtype(Context& ctx) {
  const Value ab = product(ctx, ctx.tensor(1), ctx.tensor(2), dims);
  return {accumulate(ctx, ctx.tensor(0), ab, 4, 5)};
}

Values vdot(Context& ctx) {
  return {product(ctx, conjugate(ctx.tensor(0)), ctx.tensor(1), kVectorVector)};
}

/// Nothing is summed up here, so PyTorch rounds half precision after every step.
Values addr(Context& ctx) {
  const DType out = ctx.out().dtype;
  const DType dtype = out == DType::Pred ? accumulator(out) : out;
  const Value column = scaled(ctx, unsqueeze(convert(ctx.tensor(1), dtype), 1), 4);
  const Value row = unsqueeze(convert(ctx.tensor(2), dtype), 0);
  return {add_to(ctx, ctx.tensor(0), 3, column * row)};
}

Values addmm_activation(Context& ctx) {
  const Value ab = product(ctx, ctx.tensor(1), ctx.tensor(2), kMatrixMatrix);
  const Value x = accumulate(ctx, ctx.tensor(0), ab, 3, 4);
  if (!ctx.flag_or(5, false)) return {maximum(x, zeros_like(x))};
  return {0.5 * x * (1.0 + erf(x * 0.70710678118654752440))};
}

/// [..., in] x [out, in] + [out]
Values linear(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Value weight = ctx.tensor(1);
  Value y = product(ctx, x, weight, {{}, {}, {x.rank() - 1}, {weight.rank() - 1}});
  if (ctx.has(2)) y = y + convert(ctx.tensor(2), y.dtype());
  return {y};
}

/// (self, grad_output, weight, output_mask) -> gradients of input, weight, bias
Values linear_backward(Context& ctx) {
  const Value x = ctx.tensor(0);
  const Value grad = ctx.tensor(1);
  const Value weight = ctx.tensor(2);
  Dims leading(grad.rank() - 1);
  for (int64_t i = 0; i < grad.rank() - 1; ++i) leading[i] = i;
  const std::vector<bool>& wanted = ctx.flags(3);
  Values results(3);
  if (wanted[0]) results[0] = product(ctx, grad, weight, {{}, {}, {grad.rank() - 1}, {0}});
  if (wanted[1]) results[1] = product(ctx, grad, x, {{}, {}, leading, leading});
  if (wanted[2]) results[2] = reduce_sum(convert(grad, accumulator(grad.dtype())), leading);
  return results;
}

Values int_mm(Context& ctx) {
  return {ctx.b.dot_general(ctx.tensor(0), ctx.tensor(1), kMatrixMatrix,
                            stablehlo::Precision::Highest, DType::S32)};
}

}  // namespace

Table matmul_table() {
  // beta and alpha are nearly always 1 and 0: then they need no operand and no multiplication.
  const std::vector<double> usual = {0.0, 1.0};
  return {
      {.name = "aten::mm", .lower = matmul<kMatrixMatrix>, .uses_precision = true},
      {.name = "aten::mm.dtype", .lower = matmul<kMatrixMatrix>, .uses_precision = true},
      {.name = "aten::bmm", .lower = matmul<kBatchedMatrices>, .uses_precision = true},
      {.name = "aten::bmm.dtype", .lower = matmul<kBatchedMatrices>, .uses_precision = true},
      {.name = "aten::mv", .lower = matmul<kMatrixVector>, .uses_precision = true},
      {.name = "aten::dot", .lower = matmul<kVectorVector>, .uses_precision = true},
      {.name = "aten::vdot", .lower = vdot, .uses_precision = true},
      {.name = "aten::addmm",
       .lower = add_matmul<kMatrixMatrix>,
       .special_values = usual,
       .uses_precision = true},
      {.name = "aten::addmm.dtype",
       .lower = add_matmul_dtype<kMatrixMatrix>,
       .special_values = usual,
       .uses_precision = true},
      {.name = "aten::addmv",
       .lower = add_matmul<kMatrixVector>,
       .special_values = usual,
       .uses_precision = true},
      {.name = "aten::baddbmm",
       .lower = add_matmul<kBatchedMatrices>,
       .special_values = usual,
       .uses_precision = true},
      {.name = "aten::baddbmm.dtype",
       .lower = add_matmul_dtype<kBatchedMatrices>,
       .special_values = usual,
       .uses_precision = true},
      {.name = "aten::addbmm",
       .lower = add_matmul<kSumOfMatrices>,
       .special_values = usual,
       .uses_precision = true},
      {.name = "aten::addr", .lower = addr, .special_values = usual},
      {.name = "aten::_addmm_activation",
       .lower = addmm_activation,
       .special_values = usual,
       .uses_precision = true},
      {.name = "aten::linear", .lower = linear, .uses_precision = true},
      {.name = "aten::linear_backward", .lower = linear_backward, .uses_precision = true},
      {.name = "aten::_int_mm", .lower = int_mm},
  };
}

}  // namespace torch_tpu::lowering
