// Products of Householder reflections as LAPACK stores them: the matrix that geqrf leaves, [batch,
// m, n], whose column i holds below the diagonal the tail of vector i (its head is 1), and a factor
// tau for each: H(i) = I - tau v v^H, Q = H(0) H(1) ...
#pragma once

#include "lowering/linalg.h"

namespace torch_tpu::lowering {

struct Reflections {
  Value factors;  // [batch, m, n]: R on and above the diagonal
  Value tau;      // [batch, min(m, n)]
};

/// One of them, made by reflect().
struct Reflection {
  Value v;     // [batch, m, 1]: zeros above the row, 1 in it
  Value tau;   // [batch, 1, 1]
  Value beta;  // [batch, 1, 1]: what stays of the column in the row
};

/// The H for which the elements of H^H x [batch, m, 1] below row j (0-d, S32) are zero, as LAPACK's
/// larfg.
Reflection reflect(Value x, Value j);

/// A = Q R with LAPACK's signs.
Reflections qr_decompose(Value a);

/// Q c, or Q^H c; c is [batch, m, any].
Value apply_reflections(const Reflections& q, Value c, bool adjoint);

/// The first `columns` columns of Q [batch, m, columns].
Value orthogonal_factor(const Reflections& q, int64_t columns);

/// R [batch, rows, n].
Value triangular_factor(const Reflections& q, int64_t rows);

}  // namespace torch_tpu::lowering
