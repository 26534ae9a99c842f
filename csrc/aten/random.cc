// Random operators: PyTorch's checks of their numbers, which are not part of a program's key, and
// what the host decides. The numbers themselves are in csrc/lowering/random.cc.
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/DistributionTemplates.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <limits>
#include <utility>

#include "aten/compose.h"

namespace torch_tpu::aten {
namespace {

using Generator = std::optional<at::Generator>;

/// Fills self, if it has elements.
template <typename... Args>
at::Tensor& fill(const char* name, at::Tensor& self, Args&&... args) {
  if (self.numel() > 0) native(name, self, std::forward<Args>(args)...);
  return self;
}

// ---- continuous distributions

/// Only to let PyTorch's template check the bounds.
template <typename>
struct CheckedUniform {
  void operator()(at::TensorIterator& target, double from, double to, const Generator& generator) {
    native("aten::uniform_", target.tensor(0), from, to, generator);
  }
};

at::Tensor& uniform_(at::Tensor& self, double from, double to, Generator generator) {
  return at::native::templates::uniform_impl_<CheckedUniform, void>(self, from, to, generator);
}

void check_std(double std) {
  TORCH_CHECK(std >= 0.0, "normal expects std >= 0.0, but found std ", std);
}

void check_std(const at::Tensor& std) {
  TORCH_CHECK(!std.is_complex(), "normal expects standard deviation to be non-complex");
  TORCH_CHECK(std.numel() == 0 || std.min().ge(0).item<bool>(),
              "normal expects all elements of std >= 0.0");
}

at::Tensor& normal_(at::Tensor& self, double mean, double std, Generator generator) {
  check_std(std);
  return fill("aten::normal_", self, mean, std, generator);
}

template <typename Mean, typename Std>
at::Tensor normal(const char* name, const Mean& mean, const Std& std, const Generator& generator) {
  check_std(std);
  return native(name, mean, std, generator).at(0).toTensor();
}

template <typename Mean, typename Std>
at::Tensor& normal_out(const char* name, const Mean& mean, const Std& std,
                       const Generator& generator, at::Tensor& out) {
  check_std(std);
  native(name, mean, std, generator, out);
  return out;
}

at::Tensor normal_tensor_float(const at::Tensor& mean, double std, Generator generator) {
  return aten::normal("aten::normal.Tensor_float", mean, std, generator);
}

at::Tensor normal_float_tensor(double mean, const at::Tensor& std, Generator generator) {
  return aten::normal("aten::normal.float_Tensor", mean, std, generator);
}

at::Tensor normal_tensors(const at::Tensor& mean, const at::Tensor& std, Generator generator) {
  return aten::normal("aten::normal.Tensor_Tensor", mean, std, generator);
}

at::Tensor& normal_tensor_float_out(const at::Tensor& mean, double std, Generator generator,
                                    at::Tensor& out) {
  return normal_out("aten::normal.Tensor_float_out", mean, std, generator, out);
}

at::Tensor& normal_float_tensor_out(double mean, const at::Tensor& std, Generator generator,
                                    at::Tensor& out) {
  return normal_out("aten::normal.float_Tensor_out", mean, std, generator, out);
}

at::Tensor& normal_tensors_out(const at::Tensor& mean, const at::Tensor& std, Generator generator,
                               at::Tensor& out) {
  return normal_out("aten::normal.Tensor_Tensor_out", mean, std, generator, out);
}

at::Tensor& log_normal_(at::Tensor& self, double mean, double std, Generator generator) {
  TORCH_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  TORCH_CHECK_NOT_IMPLEMENTED(at::isFloatingType(self.scalar_type()),
                              "\"log_normal_cpu\" not implemented for '", self.scalar_type(), "'");
  return fill("aten::log_normal_", self, mean, std, generator);
}

at::Tensor& exponential_(at::Tensor& self, double lambda, Generator generator) {
  TORCH_CHECK(lambda > 0.0, "exponential_ expects lambda > 0.0, but found lambda=", lambda);
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "Exponential distribution is a continuous probability distribution. dtype must be a "
              "floating point but you specified ",
              self.scalar_type());
  return fill("aten::exponential_", self, lambda, generator);
}

at::Tensor& cauchy_(at::Tensor& self, double median, double sigma, Generator generator) {
  TORCH_CHECK(sigma > 0.0, "cauchy_ expects sigma > 0.0, but found sigma=", sigma);
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "Cauchy distribution is a continuous probability distribution. dtype must be a "
              "floating point but you specified ",
              self.dtype());
  return fill("aten::cauchy_", self, median, sigma, generator);
}

// ---- discrete distributions

at::Tensor& geometric_(at::Tensor& self, double p, Generator generator) {
  TORCH_CHECK(0 < p && p < 1, "geometric_ expects p to be in (0, 1), but got p=", p);
  return fill("aten::geometric_", self, p, generator);
}

at::Tensor& bernoulli_out(const at::Tensor& self, Generator generator, at::Tensor& out) {
  return out.resize_(self.sizes()).bernoulli_(self, std::move(generator));
}

at::Tensor& bernoulli_(at::Tensor& self, double p, Generator generator) {
  TORCH_CHECK(0 <= p && p <= 1, "bernoulli_ expects p to be in [0, 1], but got p=", p);
  return fill("aten::bernoulli_.float", self, p, generator);
}

/// base + (random % range); a range of 2^32 or more takes words of 64 bits, as in PyTorch.
void fill_integers(const at::Tensor& self, int64_t base, uint64_t range,
                   const Generator& generator) {
  const int64_t bits = range >> 32 ? 64 : 32;
  native("torch_tpu::random_from_", self, c10::Scalar(base),
         c10::Scalar(static_cast<int64_t>(range)), bits, generator);
}

/// All integers of 64 bits.
void fill_bits(const at::Tensor& self, const Generator& generator) {
  const c10::Scalar none(static_cast<int64_t>(0));
  native("torch_tpu::random_from_", self, none, none, int64_t{0}, generator);
}

/// What PyTorch's template calls when it has checked the bounds.
template <typename>
struct CheckedIntegers {
  void operator()(at::TensorIterator& target, uint64_t range, int64_t base,
                  const Generator& generator) {
    fill_integers(target.tensor(0), base, range, generator);
  }
  void operator()(at::TensorIterator& target, const Generator& generator) {
    fill_bits(target.tensor(0), generator);
  }
};

at::Tensor& random_from(at::Tensor& self, int64_t from, std::optional<int64_t> to,
                        Generator generator) {
  return at::native::templates::random_from_to_impl<CheckedIntegers, void>(self, from, to,
                                                                           generator);
}

at::Tensor& random_to(at::Tensor& self, int64_t to, Generator generator) {
  return random_from(self, 0, to, generator);
}

/// Number of the integers that random_() without bounds draws from.
uint64_t full_range(at::ScalarType dtype) {
  if (dtype == at::kBool) return 2;
  if (at::isFloatingType(dtype)) {
    int digits = 0;
    AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, dtype, "random_",
                                    [&] { digits = std::numeric_limits<scalar_t>::digits; });
    return (uint64_t{1} << digits) + 1;
  }
  uint64_t greatest = 0;
  AT_DISPATCH_V2(dtype, "random_", AT_WRAP([&] {
                   greatest = static_cast<uint64_t>(std::numeric_limits<scalar_t>::max());
                 }),
                 AT_EXPAND(AT_INTEGRAL_TYPES_V2));
  return greatest + 1;
}

at::Tensor& random_(at::Tensor& self, Generator generator) {
  if (self.numel() == 0) return self;
  const uint64_t range = full_range(self.scalar_type());
  if (range == 0) {
    fill_bits(self, generator);
  } else {
    fill_integers(self, 0, range, generator);
  }
  return self;
}

at::Tensor& randperm_out(c10::SymInt n, Generator generator, at::Tensor& out) {
  TORCH_CHECK(n >= 0, "n must be non-negative, got", n);
  const int64_t size = n.guard_int(__FILE__, __LINE__);
  at::native::check_supported_max_int_with_precision(size, out);
  out.resize_({size});
  return fill("torch_tpu::randperm_", out, generator);
}

at::Tensor multinomial(const at::Tensor& self, c10::SymInt samples, bool replacement,
                       Generator generator) {
  const int64_t count = samples.guard_int(__FILE__, __LINE__);
  TORCH_CHECK(self.dim() > 0 && self.dim() <= 2, "prob_dist must be 1 or 2 dim");
  TORCH_CHECK(
      at::isFloatingType(self.scalar_type()),
      "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  TORCH_CHECK(count > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(replacement || count <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  constexpr int64_t max_categories = 1 << 24;  // consecutive integers in float32
  TORCH_CHECK(self.size(-1) <= max_categories, "number of categories cannot exceed 2^24");
  if (self.numel() == 0) {
    TORCH_CHECK(self.dim() == 2 && self.size(0) == 0,
                "invalid multinomial distribution (sum of probabilities <= 0)");
    return at::empty({0, count}, self.options().dtype(at::kLong));
  }
  const auto results =
      native("torch_tpu::multinomial_checked", self, count, replacement, generator);
  const auto problem = results[1].toTensor().item<int64_t>();
  if (!replacement || count == 1) {
    TORCH_CHECK(problem != 1 && problem != 2,
                "probability tensor contains either `inf`, `nan` or element < 0");
  }
  const char* what = problem == 1   ? "encountering probability entry < 0"
                     : problem == 2 ? "encountering probability entry = infinity or NaN"
                                    : "sum of probabilities <= 0";
  TORCH_CHECK(problem == 0, "invalid multinomial distribution (", what, ")");
  return results[0].toTensor();
}

at::Tensor& multinomial_out(const at::Tensor& self, c10::SymInt samples, bool replacement,
                            Generator generator, at::Tensor& out) {
  TORCH_CHECK(out.scalar_type() == at::kLong,
              "multinomial expects Long tensor out, got: ", out.scalar_type());
  const at::Tensor result = aten::multinomial(self, samples, replacement, generator);
  return out.resize_(result.sizes()).copy_(result);
}

TORCH_LIBRARY_FRAGMENT(torch_tpu, m) {
  m.def(
      "random_from_(Tensor(a!) self, Scalar base, Scalar range, int bits, Generator? generator)"
      " -> Tensor(a!)");
  m.def("randperm_(Tensor(a!) self, Generator? generator) -> Tensor(a!)");
  m.def(
      "multinomial_checked(Tensor self, int num_samples, bool replacement, Generator? generator)"
      " -> (Tensor, Tensor)");
}

std::tuple<at::Tensor, at::Tensor> multinomial_meta(const at::Tensor& self, int64_t count, bool,
                                                    const Generator&) {
  auto sizes = self.sizes().vec();
  sizes.back() = count;
  const auto options = self.options().dtype(at::kLong);
  return {at::empty(sizes, options), at::empty({}, options)};
}

TORCH_LIBRARY_IMPL(torch_tpu, Meta, m) { m.impl("multinomial_checked", multinomial_meta); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("uniform_", uniform_);
  m.impl("normal_", normal_);
  m.impl("normal.Tensor_float", normal_tensor_float);
  m.impl("normal.float_Tensor", normal_float_tensor);
  m.impl("normal.Tensor_Tensor", normal_tensors);
  m.impl("normal.Tensor_float_out", normal_tensor_float_out);
  m.impl("normal.float_Tensor_out", normal_float_tensor_out);
  m.impl("normal.Tensor_Tensor_out", normal_tensors_out);
  m.impl("log_normal_", log_normal_);
  m.impl("exponential_", exponential_);
  m.impl("cauchy_", cauchy_);
  m.impl("geometric_", geometric_);
  m.impl("bernoulli.out", bernoulli_out);
  m.impl("bernoulli_.float", bernoulli_);
  m.impl("random_", random_);
  m.impl("random_.from", random_from);
  m.impl("random_.to", random_to);
  m.impl("randperm.generator_out", randperm_out);
  m.impl("multinomial", multinomial);
  m.impl("multinomial.out", multinomial_out);
}

}  // namespace
}  // namespace torch_tpu::aten
