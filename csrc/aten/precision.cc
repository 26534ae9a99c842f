#include "aten/precision.h"

#include <ATen/Context.h>

#include <atomic>

namespace torch_tpu::aten {

using at::Float32Backend;
using at::Float32Op;
using at::Float32Precision;
using stablehlo::Precision;

namespace {

constexpr int kUnset = -1;
std::atomic<int> own{kUnset};

/// PyTorch has no settings for other backends than CUDA and MKLDNN, and one for all. Setting the
/// precision of float32 products writes those of both: "high" is tf32 and tf32, "medium" is tf32
/// and bf16. A setting that concerns only one of the libraries is not about this device.
Precision of_torch() {
  const at::Context& context = at::globalContext();
  const auto mkldnn = context.float32Precision(Float32Backend::MKLDNN, Float32Op::MATMUL);
  if (mkldnn != Float32Precision::TF32 && mkldnn != Float32Precision::BF16) {
    return Precision::Highest;
  }
  if (context.float32Precision(Float32Backend::CUDA, Float32Op::MATMUL) == Float32Precision::TF32) {
    return mkldnn == Float32Precision::TF32 ? Precision::High : Precision::Default;
  }
  const auto all = context.float32Precision(Float32Backend::GENERIC, Float32Op::ALL);
  const bool is_of_all = all == Float32Precision::BF16 && mkldnn == all;
  return is_of_all ? Precision::Default : Precision::Highest;
}

}  // namespace

Precision precision() {
  const int set = own.load(std::memory_order_relaxed);
  return set == kUnset ? of_torch() : static_cast<Precision>(set);
}

void set_precision(std::optional<Precision> precision) {
  own.store(precision ? static_cast<int>(*precision) : kUnset);
}

std::optional<Precision> own_precision() {
  const int set = own.load();
  if (set == kUnset) return std::nullopt;
  return static_cast<Precision>(set);
}

}  // namespace torch_tpu::aten
