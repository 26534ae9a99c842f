// Streams as operators see them.
#include <c10/core/Stream.h>
#include <torch/library.h>

namespace torch_tpu::aten {
namespace {

/// Storages are freed in the device's order whichever stream used them.
void record_stream(at::Tensor& /*self*/, c10::Stream stream) {
  TORCH_CHECK(stream.device_type() == c10::DeviceType::PrivateUse1,
              "record_stream: expected a stream of the tpu device, but this one is of ",
              stream.device());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("record_stream", &record_stream); }

}  // namespace
}  // namespace torch_tpu::aten
