// Copies: host to device, device to host, between devices, and within one.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/resize.h>
#include <torch/library.h>

#include <cstring>

#include "aten/call.h"
#include "aten/dtype.h"
#include "aten/native.h"
#include "aten/tensor.h"
#include "device/allocator.h"
#include "device/errors.h"
#include "engine/runtime.h"
#include "lowering/view.h"

namespace torch_tpu::aten {
namespace {

using engine::Storage;

bool on_device(const at::Tensor& tensor) { return tensor.device().is_privateuseone(); }

at::TensorOptions cpu_options(const at::Tensor& tensor) {
  return tensor.options().device(c10::DeviceType::CPU).pinned_memory(false);
}

/// True if the tensor is all of its storage, each element once, without lazy bits.
bool is_whole(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
         !tensor.is_conj() && !tensor.is_neg() &&
         static_cast<size_t>(tensor.numel() * tensor.itemsize()) == tensor.storage().nbytes();
}

/// Replaces the value of a whole tensor by host memory in the tensor's own element order.
void upload_whole(const at::Tensor& self, const void* data) {
  Storage& storage = device::storage_of(self);
  const auto sizes = self.sizes();
  const auto strides = self.strides();
  stablehlo::Type base{
      to_hlo(self.scalar_type()),
      lowering::memory_order_dims({sizes.data(), sizes.size()}, {strides.data(), strides.size()})};
  const engine::WaitScope wait;
  // Copied in the call: the source may be pageable and freed at once, whatever non_blocking says.
  pjrt::Buffer value = storage.device.upload(data, base);
  // What was recorded before sees the old value.
  const auto lock = storage.device.lock_value(storage);
  storage.set_base(std::move(base));
  storage.value = std::move(value);
  storage.is_lost = false;
}

void device_copy(const at::Tensor& self, const at::Tensor& source) {
  torch::jit::Stack stack{self, source, false};
  run_native("aten::copy_", stack);
}

void host_to_device(const at::Tensor& self, const at::Tensor& source) {
  if (is_whole(self)) {
    at::Tensor staged = source;
    if (source.scalar_type() != self.scalar_type() || source.sizes() != self.sizes() ||
        source.strides() != self.strides() || source.is_conj() || source.is_neg()) {
      staged = at::empty_strided(self.sizes(), self.strides(), cpu_options(self));
      staged.copy_(source);
    }
    upload_whole(self, staged.const_data_ptr());
    return;
  }
  const at::Tensor staged =
      empty_contiguous(source.sizes(), source.scalar_type(), self.device().index());
  host_to_device(staged, source);
  device_copy(self, staged);
}

/// Bytes from the first to the last element of the tensor.
std::pair<size_t, size_t> extent_of(const at::Tensor& tensor) {
  int64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d) last += (tensor.size(d) - 1) * tensor.stride(d);
  const auto width = static_cast<size_t>(tensor.itemsize());
  return {static_cast<size_t>(tensor.storage_offset()) * width,
          (static_cast<size_t>(last) + 1) * width};
}

/// A CPU tensor with the device tensor's values; its strides are any.
at::Tensor fetch(const at::Tensor& source) {
  if (source.numel() == 0) return at::empty(source.sizes(), cpu_options(source));
  Storage& storage = device::storage_of(source);
  engine::Device& device = storage.device;
  const auto [first, bytes] = extent_of(source);
  const size_t wanted = static_cast<size_t>(source.numel()) * source.itemsize();
  // Where memory is the host's, or little is fetched in vain, the host picks the elements: a
  // program for each geometry that is ever printed would cost a compilation.
  constexpr size_t kCheapBytes = 64 << 10;
  const bool fetch_extent = device.is_host() || bytes == wanted || bytes <= kCheapBytes;
  if (!fetch_extent || first + bytes > storage.base_bytes) return fetch(dense(source.clone()));
  at::Tensor memory =
      at::empty({static_cast<int64_t>(bytes / source.itemsize())}, cpu_options(source));
  {
    const engine::WaitScope wait;
    device.raise_pending_error();
    device.download_part(storage, first, bytes, memory.mutable_data_ptr());
  }
  at::Tensor out = memory.as_strided(source.sizes(), source.strides(), 0);
  if (source.is_conj()) out = out.conj();
  if (source.is_neg()) out = out._neg_view();
  return out;
}

void device_to_host(const at::Tensor& self, const at::Tensor& source) {
  if (source.sizes() == self.sizes() && source.scalar_type() == self.scalar_type() &&
      is_whole(source) && source.strides() == self.strides() && !self.is_conj() && !self.is_neg()) {
    Storage& storage = device::storage_of(source);
    if (storage.base_bytes == storage.nbytes) {
      const engine::WaitScope wait;
      storage.device.raise_pending_error();
      storage.device.download(storage, self.mutable_data_ptr());
      return;
    }
  }
  self.copy_(fetch(source));
}

void between_devices(const at::Tensor& self, const at::Tensor& source) {
  const at::Tensor whole = dense(source.clone());
  Storage& from = device::storage_of(whole);
  engine::Device& target = device::storage_of(self).device;
  const at::Tensor moved =
      empty_contiguous(source.sizes(), source.scalar_type(), self.device().index());
  if (source.numel() > 0) {
    const engine::WaitScope wait;
    pjrt::Buffer value = [&] {
      const auto lock = from.device.lock_value(from);
      engine::ensure_value(from);
      return from.value.copy_to_device(target.pjrt());
    }();
    Storage& to = device::storage_of(moved);
    const auto lock = target.lock();
    to.set_base(from.base);
    to.value = std::move(value);
  }
  device_copy(self, moved);
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool /*non_blocking*/) {
  if (self.is_same(source)) return self;
  device::translated("copy_", [&] {
    if (on_device(self) && on_device(source)) {
      if (self.device() == source.device()) {
        device_copy(self, source);
      } else {
        between_devices(self, source.expand_as(self));
      }
    } else if (on_device(self)) {
      TORCH_CHECK(source.device().is_cpu(), "copy_: cannot copy from ", source.device(), " to ",
                  self.device());
      const at::Tensor expanded = source.expand_as(self);
      if (self.numel() > 0) host_to_device(self, expanded);
    } else {
      TORCH_CHECK(self.device().is_cpu(), "copy_: cannot copy from ", source.device(), " to ",
                  self.device());
      device_to_host(self, source);
    }
  });
  return self;
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& self, bool non_blocking) {
  at::Tensor target = self;
  return copy(target, source, non_blocking);
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& self) {
  self.resize_(source.sizes());
  at::Tensor target = self;
  return copy(target, source, false);
}

at::Scalar local_scalar_dense(const at::Tensor& self) {
  TORCH_CHECK(self.numel() == 1, "a Tensor with ", self.numel(),
              " elements cannot be converted to Scalar");
  return device::translated("item", [&] { return fetch(self).item(); });
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", copy);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", local_scalar_dense);
}

}  // namespace
}  // namespace torch_tpu::aten
