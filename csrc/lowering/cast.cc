#include "lowering/cast.h"

#include "stablehlo/builder.h"

namespace torch_tpu::lowering {

using stablehlo::DType;
using stablehlo::Value;

namespace {

/// Floats narrower than F32: PyTorch converts them to and from other dtypes through float.
bool is_narrow_float(DType dtype) { return is_float(dtype) && byte_size(dtype) < 4; }

Value zeros_of(Value x, DType dtype) { return x.builder().zeros({dtype, x.dims()}); }

Value to_pred(Value x) {
  if (is_complex(x.dtype())) {
    const Value re = x.builder().real(x), im = x.builder().imag(x);
    return logical_or(to_pred(re), to_pred(im));
  }
  return ne(x, zeros_like(x));
}

/// C's conversion on x86: what does not fit, NaN too, becomes the least integer. XLA saturates,
/// which differs only above.
Value to_signed(Value x, DType dtype) {
  const double limit = dtype == DType::S64 ? 0x1p63 : 0x1p31;
  const Value least = x.builder().lowest(dtype, x.dims());
  return where(lt(x, limit), convert(x, dtype), least);
}

Value float_to_int(Value x, DType dtype) {
  switch (dtype) {
    case DType::S32:
    case DType::S64:
      return to_signed(x, dtype);
    case DType::U64: {
      // Negative numbers wrap, numbers from 2^63 on are exact.
      const Value high = convert(x, DType::U64);
      const Value low = convert(to_signed(x, DType::S64), DType::U64);
      const Value is_high = logical_and(ge(x, 0x1p63), lt(x, 0x1p64));
      return where(is_high, high, low);
    }
    case DType::U32:
      return convert(to_signed(x, DType::S64), DType::U32);
    default:  // narrow integers take the low bits
      return convert(to_signed(x, DType::S32), dtype);
  }
}

}  // namespace

Value cast(Value x, DType dtype) {
  const DType from = x.dtype();
  if (from == dtype) return x;
  if (dtype == DType::Pred) return to_pred(x);
  if (is_complex(from)) {
    if (is_complex(dtype)) return convert(x, dtype);
    return cast(x.builder().real(x), dtype);
  }
  if (is_complex(dtype)) {
    const Value re = cast(x, real_dtype(dtype));
    return x.builder().complex(re, zeros_like(re));
  }
  // Not a conversion: XLA makes x * convert(pred) a selection, which hides a NaN or infinite x.
  if (from == DType::Pred && is_float(dtype)) return where(x, 1.0, zeros_of(x, dtype));
  if (from != DType::F32 && is_narrow_float(dtype)) {
    return convert(cast(x, DType::F32), dtype);
  }
  if (is_narrow_float(from) && dtype != DType::F32) return cast(convert(x, DType::F32), dtype);
  if (is_float(from) && is_int(dtype)) return float_to_int(x, dtype);
  return convert(x, dtype);
}

}  // namespace torch_tpu::lowering
