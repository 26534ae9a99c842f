// Expression helpers over the builder: operators on Values with NumPy broadcasting and constants,
// so that a lowering reads like the formula. Operands must have one dtype (constants adapt to it).
#pragma once

#include "stablehlo/builder.h"

namespace torch_tpu::stablehlo {

/// The common shape by NumPy's rules; throws BuildError.
Dims broadcast_shapes(const Dims& a, const Dims& b);
/// x broadcast to dims by NumPy's rules (trailing dimensions aligned, size 1 repeats).
Value broadcast_to(Value x, const Dims& dims);
/// A constant with the dtype and shape of x.
Value constant_like(Value x, double value);
Value constant_int_like(Value x, int64_t value);
Value zeros_like(Value x);
Value ones_like(Value x);

Value operator+(Value a, Value b);
Value operator-(Value a, Value b);
Value operator*(Value a, Value b);
Value operator/(Value a, Value b);  // integers: truncates; complex and floats: exact division
Value operator-(Value a);
Value operator+(Value a, double b);
Value operator-(Value a, double b);
Value operator*(Value a, double b);
Value operator/(Value a, double b);
Value operator+(double a, Value b);
Value operator-(double a, Value b);
Value operator*(double a, Value b);
Value operator/(double a, Value b);

// Comparisons give Pred. Named, not operators, so that nothing compares handles by mistake.
Value eq(Value a, Value b);
Value ne(Value a, Value b);
Value lt(Value a, Value b);
Value le(Value a, Value b);
Value gt(Value a, Value b);
Value ge(Value a, Value b);
Value eq(Value a, double b);
Value ne(Value a, double b);
Value lt(Value a, double b);
Value le(Value a, double b);
Value gt(Value a, double b);
Value ge(Value a, double b);

// Logical on Pred, bitwise on integers.
Value logical_and(Value a, Value b);
Value logical_or(Value a, Value b);
Value logical_xor(Value a, Value b);
Value logical_not(Value a);

/// Broadcasts all three.
Value where(Value pred, Value a, Value b);
Value where(Value pred, Value a, double b);
Value where(Value pred, double a, Value b);

// NaN wins in maximum and minimum (and reduce_max, reduce_min), as in PyTorch. XLA's CPU backend
// needs the compile option xla_cpu_enable_fast_min_max=false for it.
Value maximum(Value a, Value b);
Value minimum(Value a, Value b);
Value pow(Value a, Value b);
Value remainder(Value a, Value b);  // C's fmod: sign of the dividend
Value atan2(Value a, Value b);
Value exp(Value x);
Value expm1(Value x);
Value log(Value x);
Value log1p(Value x);
Value sqrt(Value x);
Value rsqrt(Value x);
Value tanh(Value x);
Value sin(Value x);
Value cos(Value x);
Value tan(Value x);
Value sigmoid(Value x);  // stablehlo.logistic
Value abs(Value x);      // magnitude (real) of a complex value
Value sign(Value x);
Value floor(Value x);
Value ceil(Value x);
Value round_even(Value x);
Value erf(Value x);
Value is_nan(Value x);
Value convert(Value x, DType dtype);

// Shape helpers. Dimensions may be negative where noted.
Value reshape(Value x, const Dims& dims);
Value transpose(Value x, const Dims& permutation);
Value flatten(Value x);
Value unsqueeze(Value x, int64_t dim);  // negative counts from the end of the result
Value squeeze(Value x, int64_t dim);
/// Swaps the two last dimensions.
Value swap_last(Value x);
Value slice_dim(Value x, int64_t dim, int64_t start, int64_t limit, int64_t stride = 1);
Value iota_like(Value x, int64_t dim, DType dtype);

// Reductions over dims (sorted or not; each 0 <= d < rank); keepdim keeps them with size 1.
Value reduce_sum(Value x, const Dims& dims, bool keepdim = false);
Value reduce_prod(Value x, const Dims& dims, bool keepdim = false);
Value reduce_max(Value x, const Dims& dims, bool keepdim = false);
Value reduce_min(Value x, const Dims& dims, bool keepdim = false);
Value reduce_and(Value x, const Dims& dims, bool keepdim = false);
Value reduce_or(Value x, const Dims& dims, bool keepdim = false);
/// Puts the reduced dimensions back with size 1.
Value keep_dims(Value reduced, const Dims& original, const Dims& dims);
Dims all_dims(Value x);
/// d in [0, rank); throws BuildError when out of range. rank 0 counts as 1, as in PyTorch.
int64_t wrap_dim(int64_t d, int64_t rank);

}  // namespace torch_tpu::stablehlo
