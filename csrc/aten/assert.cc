// Assertions of values. They read the value, as on the CPU: the error is raised at the call.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

void assert_async(const at::Tensor& self) {
  TORCH_CHECK(self.is_nonzero(), "Expected Tensor with single nonzero value, but got zero");
}

void assert_async_message(const at::Tensor& self, c10::string_view message) {
  TORCH_CHECK(self.is_nonzero(), message.empty() ? "Assertion is failed" : message);
}

/// Of exported graphs, where the token keeps the order of assertions.
at::Tensor functional_assert_async(const at::Tensor& self, c10::string_view message,
                                   const at::Tensor& token) {
  assert_async_message(self, message);
  return token.clone();
}

at::Tensor make_token(std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                      std::optional<at::Device> device, std::optional<bool> pin_memory,
                      std::optional<at::MemoryFormat> format) {
  return at::empty({}, dtype, layout, device, pin_memory, format);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_assert_async", assert_async);
  m.impl("_assert_async.msg", assert_async_message);
  m.impl("_functional_assert_async.msg", functional_assert_async);
  m.impl("_make_dep_token", make_token);
}

}  // namespace
}  // namespace torch_tpu::aten
