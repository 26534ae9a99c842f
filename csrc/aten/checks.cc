#include "aten/checks.h"

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <string_view>
#include <unordered_map>
#include <vector>

namespace torch_tpu::aten {
namespace {

// The words are not important: a call that is refused gets the error of the CPU (aten/meta.h).

/// The arguments of a call by their positions in the schema that the operator's row names.
class Arguments {
 public:
  Arguments(const Form& form, c10::ArrayRef<c10::IValue> values) : form_(form), values_(values) {}

  const c10::IValue& at(int position) const { return values_[form_.arg_of_position.at(position)]; }
  at::Tensor tensor(int position) const { return at(position).toTensor(); }

  /// The k-th out= argument; undefined in other forms.
  at::Tensor out(size_t k) const {
    return form_.style == Style::Out ? values_[form_.writes.at(k)].toTensor() : at::Tensor();
  }

 private:
  const Form& form_;
  c10::ArrayRef<c10::IValue> values_;
};

void check_pow(const Arguments& in) {
  const at::Scalar exponent = in.at(1).toScalar();
  TORCH_CHECK(!(at::isIntegralType(in.tensor(0).scalar_type(), /*includeBool=*/true) &&
                exponent.isIntegral(/*includeBool=*/true) && exponent.toLong() < 0),
              "Integers to negative integer powers are not allowed.");
}

void check_relu(const Arguments& in) {
  TORCH_CHECK(in.tensor(0).scalar_type() != at::kBool, "Boolean inputs not supported for relu");
}

void check_variance(const Arguments& in) {
  const at::ScalarType dtype = in.tensor(0).scalar_type();
  TORCH_CHECK(at::isFloatingType(dtype) || at::isComplexType(dtype),
              "std and var only support floating point and complex dtypes");
}

void check_subtraction(const Arguments& in) {
  for (int position : {0, 1}) {
    TORCH_CHECK(in.tensor(position).scalar_type() != at::kBool,
                "Subtraction, the `-` operator, with a bool tensor is not supported.");
  }
}

void check_smooth_l1_loss(const Arguments& in) {
  TORCH_CHECK(in.at(3).toDouble() >= 0,
              "smooth_l1_loss does not support negative values for beta.");
}

void check_complex(const Arguments& in) {
  const at::ScalarType real = in.tensor(0).scalar_type();
  const at::Tensor out = in.out(0);
  TORCH_CHECK(!out.defined() || out.scalar_type() == c10::toComplexType(real),
              "Expected object of scalar type ", c10::toComplexType(real), " but got scalar type ",
              out.scalar_type(), " for argument 'out'");
}

void check_masked_scatter(const Arguments& in) {
  const at::ScalarType mask = in.tensor(1).scalar_type();
  TORCH_CHECK(mask == at::kBool,
              "masked_scatter_ only supports boolean masks, but got mask with dtype ", mask);
}

/// Also where there is one number, and nothing to compare it with.
void check_ordered(const Arguments& in) {
  TORCH_CHECK(!in.tensor(0).is_complex(), "complex numbers have no order");
}

void check_aminmax(const Arguments& in) {
  check_ordered(in);
  for (size_t k : {0, 1}) {
    const at::Tensor out = in.out(k);
    TORCH_CHECK(!out.defined() || out.dtype() == in.tensor(0).dtype(),
                "Expected out tensor to have dtype ", in.tensor(0).dtype(), ", but got ",
                out.dtype(), " instead");
  }
}

/// Operators whose tensors at these positions, where they are given, must have one dtype.
const std::unordered_map<std::string_view, std::vector<int>>& same_dtype() {
  static const std::unordered_map<std::string_view, std::vector<int>> all{
      {"aten::addbmm", {0, 1, 2}},
      {"aten::addmm", {0, 1, 2}},
      {"aten::binary_cross_entropy", {0, 1, 2}},
      {"aten::complex", {0, 1}},
      {"aten::heaviside", {0, 1}},
      {"aten::index_add", {0, 3}},
      {"aten::index_copy", {0, 3}},
      {"aten::index_reduce", {0, 3}},
      {"aten::linalg_cross", {0, 1}},
      {"aten::linear", {0, 1, 2}},
      {"aten::nll_loss2d_forward", {0, 2}},
      {"aten::nll_loss_forward", {0, 2}},
      {"aten::polar", {0, 1}},
      {"aten::put", {0, 2}},
  };
  return all;
}

void check_same_dtype(const Arguments& in, const std::vector<int>& positions) {
  const at::ScalarType first = in.tensor(positions.front()).scalar_type();
  for (int position : positions) {
    if (in.at(position).isNone() || !in.tensor(position).defined()) continue;
    const at::ScalarType other = in.tensor(position).scalar_type();
    TORCH_CHECK(first == other, "expected scalar type ", first, " but found ", other);
  }
}

using Check = void (*)(const Arguments&);

const std::unordered_map<std::string_view, Check>& checks() {
  static const std::unordered_map<std::string_view, Check> all{
      {"aten::aminmax", check_aminmax},
      {"aten::complex", check_complex},
      {"aten::masked_scatter", check_masked_scatter},
      {"aten::max.dim", check_ordered},
      {"aten::min.dim", check_ordered},
      {"aten::pow.Tensor_Scalar", check_pow},
      {"aten::relu", check_relu},
      {"aten::rsub.Tensor", check_subtraction},
      {"aten::smooth_l1_loss", check_smooth_l1_loss},
      {"aten::sort.stable", check_ordered},
      {"aten::std.correction", check_variance},
      {"aten::std_mean.correction", check_variance},
      {"aten::sub.Tensor", check_subtraction},
      {"aten::topk", check_ordered},
      {"aten::var.correction", check_variance},
      {"aten::var_mean.correction", check_variance},
  };
  return all;
}

}  // namespace

void check_arguments(const Form& form, c10::ArrayRef<c10::IValue> arguments) {
  const Arguments in(form, arguments);
  const auto alike = same_dtype().find(form.op->name);
  if (alike != same_dtype().end()) check_same_dtype(in, alike->second);
  const auto check = checks().find(form.op->name);
  if (check != checks().end()) check->second(in);
}

}  // namespace torch_tpu::aten
