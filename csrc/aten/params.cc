#include "aten/params.h"

#include <ATen/core/Tensor.h>

#include <cstring>

namespace torch_tpu::aten {

using lowering::Param;
using stablehlo::DType;

namespace {

template <class T>
void put(uint32_t* words, T value) {
  std::memcpy(words, &value, sizeof value);
}

/// A double as C converts it to an integer, without the undefined cases.
int64_t to_int(double value) {
  if (!(value >= -0x1p63 && value < 0x1p63)) return INT64_MIN;
  return static_cast<int64_t>(value);
}

void put_real(uint32_t* words, DType dtype, double value) {
  switch (dtype) {
    case DType::F32:
      put(words, static_cast<float>(value));
      break;
    case DType::F64:
      put(words, value);
      break;
    case DType::C64:
      put(words, static_cast<float>(value));
      put(words + 1, 0.0f);
      break;
    case DType::C128:
      put(words, value);
      put(words + 2, 0.0);
      break;
    case DType::S32:
    case DType::U32:
      put(words, static_cast<uint32_t>(to_int(value)));
      break;
    default:
      put(words, to_int(value));
  }
}

void put_int(uint32_t* words, DType dtype, int64_t value) {
  switch (dtype) {
    case DType::S32:
    case DType::U32:
      put(words, static_cast<uint32_t>(value));
      break;
    case DType::S64:
    case DType::U64:
      put(words, value);
      break;
    default:
      put_real(words, dtype, static_cast<double>(value));
  }
}

void put_scalar(uint32_t* words, DType dtype, const c10::Scalar& scalar) {
  if (scalar.isComplex()) {
    const c10::complex<double> z = scalar.toComplexDouble();
    if (dtype == DType::C64) {
      put(words, static_cast<float>(z.real()));
      put(words + 1, static_cast<float>(z.imag()));
    } else if (dtype == DType::C128) {
      put(words, z.real());
      put(words + 2, z.imag());
    } else {
      put_real(words, dtype, z.real());
    }
  } else if (scalar.isFloatingPoint()) {
    put_real(words, dtype, scalar.toDouble());
  } else {
    put_int(words, dtype,
            scalar.isUnsigned() ? static_cast<int64_t>(scalar.toUInt64()) : scalar.toLong());
  }
}

void put_value(uint32_t* words, DType dtype, const c10::IValue& value) {
  if (value.isDouble()) {
    put_real(words, dtype, value.toDouble());
  } else if (value.isInt()) {
    put_int(words, dtype, value.toInt());
  } else {
    put_scalar(words, dtype, value.toScalar());
  }
}

/// A 0-d CPU tensor: most are the numbers that Python operands become, so those go without a
/// dispatch.
void put_host_tensor(uint32_t* words, DType dtype, const at::Tensor& tensor) {
  if (!tensor.is_conj() && !tensor.is_neg()) {
    switch (tensor.scalar_type()) {
      case c10::ScalarType::Double:
        return put_real(words, dtype, *static_cast<const double*>(tensor.const_data_ptr()));
      case c10::ScalarType::Float:
        return put_real(words, dtype, *static_cast<const float*>(tensor.const_data_ptr()));
      case c10::ScalarType::Long:
        return put_int(words, dtype, *static_cast<const int64_t*>(tensor.const_data_ptr()));
      case c10::ScalarType::Int:
        return put_int(words, dtype, *static_cast<const int32_t*>(tensor.const_data_ptr()));
      default:
        break;
    }
  }
  put_scalar(words, dtype, tensor.item());
}

/// What c10::Scalar::to() refuses, for a Scalar argument that an operator takes in this dtype.
template <class T>
void check_integer(const c10::IValue& value) {
  const c10::Scalar scalar = value.toScalar();
  if (!scalar.isBoolean()) scalar.to<T>();
}

void check_convertible(const c10::IValue& value, DType dtype) {
  switch (dtype) {
    case DType::U8:
      return check_integer<uint8_t>(value);
    case DType::S8:
      return check_integer<int8_t>(value);
    case DType::S16:
      return check_integer<int16_t>(value);
    case DType::S32:
      return check_integer<int32_t>(value);
    case DType::S64:
      return check_integer<int64_t>(value);
    default:
      return;
  }
}

const c10::IValue& element_of(const c10::IValue& value, int32_t element) {
  return value.isList() ? value.toListRef()[element] : value;
}

}  // namespace

void write_params(const Form& form, const engine::Program& program,
                  c10::ArrayRef<c10::IValue> arguments, std::span<const int64_t> starts,
                  std::pair<uint64_t, uint64_t> random, uint32_t* words) {
  for (const Param& param : program.params) {
    uint32_t* at = words + param.word;
    switch (param.source) {
      case Param::Source::Scalar:
        check_convertible(element_of(arguments[form.arg_of_position[param.a]], param.b),
                          param.dtype);
        put_value(at, lowering::carrier(param.dtype),
                  element_of(arguments[form.arg_of_position[param.a]], param.b));
        break;
      case Param::Source::HostTensor:
        put_host_tensor(at, lowering::carrier(param.dtype),
                        element_of(arguments[form.arg_of_position[param.a]], param.b).toTensor());
        break;
      case Param::Source::ViewStart:
        put_int(at, param.dtype, starts[param.a]);
        break;
      case Param::Source::Seed:
        put(at, random.first);
        break;
      case Param::Source::Offset:
        put(at, random.second);
        break;
      case Param::Source::Site:
        put(at, program.site);
        break;
    }
  }
}

std::optional<at::Generator> generator_argument(const Form& form,
                                                c10::ArrayRef<c10::IValue> arguments) {
  if (form.generator_arg < 0) return std::nullopt;
  return arguments[form.generator_arg].toOptional<at::Generator>();
}

}  // namespace torch_tpu::aten
