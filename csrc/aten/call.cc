#include "aten/call.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "aten/dtype.h"
#include "aten/precision.h"
#include "device/allocator.h"
#include "engine/device.h"
#include "engine/runtime.h"
#include "stablehlo/types.h"

namespace torch_tpu::aten {

using engine::Storage;
using lowering::ViewKind;
using stablehlo::DType;
using torch::jit::Stack;

namespace {

// First words of key entries: a tag in the low bits, then what belongs to it.
enum Tag : uint64_t {
  kNone,
  kTensor,
  kHostTensor,
  kScalar,
  kStaticScalar,
  kInt,
  kBool,
  kList,
  kText
};

uint64_t tagged(Tag tag, uint64_t payload) { return tag | payload << 4; }

bool equal_dims(const stablehlo::Dims& dims, c10::IntArrayRef sizes) {
  return std::equal(dims.begin(), dims.end(), sizes.begin(), sizes.end());
}

/// The ranges between the bounds that PyTorch's checks of numbers use: 0 and 1; NaN is apart.
uint64_t range_of(const c10::IValue& value, uint64_t kind) {
  if (kind != 1 && kind != 2) return 0;
  const double number = kind == 1 ? static_cast<double>(value.toInt()) : value.toDouble();
  if (number < 0) return 1;
  if (number == 0) return 2;
  if (number < 1) return 3;
  if (number == 1) return 4;
  return number > 1 ? 5 : 6;
}

stablehlo::Dims base_dims(const at::Tensor& tensor) {
  return lowering::memory_order_dims({tensor.sizes().data(), tensor.sizes().size()},
                                     {tensor.strides().data(), tensor.strides().size()});
}

/// Gives a storage a base of this tensor's dtype, where that is free or the storage holds raw
/// bytes: tensors made of bytes (torch.load, UntypedStorage) are then as good as others.
void adopt(Storage& storage, const at::Tensor& tensor, DType dtype, bool dense) {
  if (storage.has_value() && storage.base.dtype != DType::U8) return;
  const int64_t width = stablehlo::byte_size(dtype);
  stablehlo::Type type{dtype, {}};
  if (dense && tensor.numel() * width == static_cast<int64_t>(storage.nbytes)) {
    type.dims = base_dims(tensor);
  } else if (storage.nbytes % width == 0) {
    type.dims = {static_cast<int64_t>(storage.nbytes) / width};
  } else {
    return;
  }
  const engine::WaitScope wait;
  const auto lock = storage.device.lock_value(storage);
  engine::retype_storage(storage, type);
}

}  // namespace

int64_t int_of(const c10::IValue& value) {
  return value.isSymInt() ? value.toSymInt().guard_int(__FILE__, __LINE__) : value.toInt();
}

void see(const at::Tensor& tensor, SeenTensor& seen) {
  Storage& storage = device::storage_of(tensor);
  const DType dtype = to_hlo(tensor.scalar_type());
  const int64_t width = stablehlo::byte_size(dtype);
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  const bool dense = impl->storage_offset() == 0 && impl->is_non_overlapping_and_dense();
  const auto bytes = static_cast<size_t>(impl->numel() * width);
  if (storage.base.dtype != dtype && bytes != 0) adopt(storage, tensor, dtype, dense);
  TORCH_CHECK(impl->dim() <= lowering::kMaxViewDims, "The tpu device takes tensors of at most ",
              lowering::kMaxViewDims, " dimensions; this one has ", impl->dim());
  const bool whole = dense && bytes == storage.base_bytes;
  seen.storage = &storage;
  seen.dtype = dtype;
  lowering::plan_view(static_cast<int64_t>(storage.base_bytes) / width,
                      {impl->sizes().data(), impl->sizes().size()},
                      {impl->strides().data(), impl->strides().size()}, impl->storage_offset(),
                      whole, seen.plan);
}

CallKey::CallKey(const Form& form, const Stack& stack) : form_(form) {
  // The default dtype decides what integers and Python floats are promoted to.
  if (form.op->uses_precision) precision_ = aten::precision();
  push(form.id | static_cast<uint64_t>(c10::get_default_dtype_as_scalartype()) << 32 |
       static_cast<uint64_t>(precision_) << 40);
  const size_t count = form.args.size();
  const c10::IValue* arguments = stack.data() + (stack.size() - count);
  for (size_t i = 0; i < count; ++i) add(arguments[i], form.args[i]);
}

int CallKey::slot_of(Storage& storage, bool written, bool& is_new) {
  int slot = 0;
  const int count = static_cast<int>(slots_.size());
  while (slot < count && slots_[slot] != &storage) ++slot;
  is_new = slot == count;
  const uint64_t bit = slot < 64 ? uint64_t{1} << slot : 0;
  if (is_new) {
    slots_.push_back(&storage);
  } else if (written || slot >= 64 || (written_slots_ & bit)) {
    may_overlap_ = true;
  }
  if (written) written_slots_ |= bit;
  return slot;
}

void CallKey::add_tensor(const at::Tensor& tensor, bool written) {
  if (!tensor.defined()) {
    push(kNone);
    return;
  }
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (!impl->is_privateuseone()) {
    TORCH_CHECK(
        is_host_scalar(tensor) && !written, form_.user_name,
        ": Expected all tensors to be on the same device, but found at least two devices, tpu:",
        device_ < 0 ? 0 : device_, " and ", tensor.device(),
        "! Move the tensor with .to('tpu') first.");
    push(tagged(kHostTensor, static_cast<uint64_t>(to_hlo(tensor.scalar_type())) |
                                 uint64_t{impl->is_wrapped_number()} << 8));
    return;
  }
  const int index = impl->device().index();
  if (device_ < 0) device_ = index;
  TORCH_CHECK(
      device_ == index, form_.user_name,
      ": Expected all tensors to be on the same device, but found at least two devices, tpu:",
      device_, " and tpu:", index, "!");
  SeenTensor seen;
  see(tensor, seen);
  const c10::IntArrayRef sizes = impl->sizes();
  const bool contiguous = impl->is_contiguous();
  uint64_t slot = 0;
  bool is_new = false;
  bool canonical = true;
  if (seen.plan.kind != ViewKind::Empty) {
    slot = static_cast<uint64_t>(slot_of(*seen.storage, written, is_new));
    canonical = seen.storage->base.dtype == seen.dtype && seen.plan.kind == ViewKind::Whole &&
                contiguous && equal_dims(seen.storage->base.dims, sizes);
  }
  push(tagged(kTensor, static_cast<uint64_t>(seen.plan.kind) |
                           static_cast<uint64_t>(seen.dtype) << 4 |
                           uint64_t{tensor.is_conj()} << 12 | uint64_t{tensor.is_neg()} << 13 |
                           uint64_t{impl->is_wrapped_number()} << 14 | uint64_t{contiguous} << 15 |
                           uint64_t{canonical} << 16 | sizes.size() << 17 | slot << 32));
  for (int64_t size : sizes) push(static_cast<uint64_t>(size));
  if (!contiguous) {
    for (int64_t stride : impl->strides()) push(static_cast<uint64_t>(stride));
  }
  if (is_new && !canonical) {
    const stablehlo::Type& base = seen.storage->base;
    push(static_cast<uint64_t>(base.dtype) | base.dims.size() << 8);
    for (int64_t size : base.dims) push(static_cast<uint64_t>(size));
  }
  starts_.append(seen.plan.starts.data(), seen.plan.starts.data() + seen.plan.num_starts);
}

void CallKey::push_text(const std::string& text) {
  push(tagged(kText, text.size()));
  for (size_t i = 0; i < text.size(); i += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + i, std::min(sizeof word, text.size() - i));
    push(word);
  }
}

void CallKey::add_scalar(const c10::IValue& value, const FormArg& arg) {
  if (value.isTensor()) {  // a number given as a 0-d tensor
    add_tensor(value.toTensor(), false);
    return;
  }
  const uint64_t kind = value.isBool() ? 0 : value.isInt() ? 1 : value.isDouble() ? 2 : 3;
  bool is_static = arg.is_static;
  if (!is_static && (kind == 1 || kind == 2) && !form_.op->special_values.empty()) {
    const double number = kind == 1 ? static_cast<double>(value.toInt()) : value.toDouble();
    for (double special : form_.op->special_values) is_static |= number == special;
  }
  if (!is_static) {
    // PyTorch refuses some numbers by their range (a negative beta, a probability above 1), and
    // does so where results' types are found, on a miss: so each range has a key of its own. The
    // program is the same, and is compiled once.
    push(tagged(kScalar, kind | range_of(value, kind) << 4));
    return;
  }
  push(tagged(kStaticScalar, kind));
  if (kind == 3) {
    const c10::complex<double> z = value.toScalar().toComplexDouble();
    push(std::bit_cast<uint64_t>(z.real()));
    push(std::bit_cast<uint64_t>(z.imag()));
  } else {
    push(kind == 2 ? std::bit_cast<uint64_t>(value.toDouble())
                   : static_cast<uint64_t>(kind == 1 ? value.toInt() : value.toBool()));
  }
}

void CallKey::add(const c10::IValue& value, const FormArg& arg) {
  if (arg.kind == ArgKind::Ignored || arg.kind == ArgKind::Generator) return;
  if (value.isNone()) {
    push(kNone);
    return;
  }
  switch (arg.kind) {
    case ArgKind::Tensor:
      add_tensor(value.toTensor(), arg.written);
      break;
    case ArgKind::TensorList: {
      const auto list = value.toListRef();
      push(tagged(kList, list.size()));
      for (const c10::IValue& element : list) {
        if (element.isNone()) {
          push(kNone);
        } else {
          const at::Tensor& tensor = element.toTensor();
          add_tensor(tensor, arg.written);
          number_in_list_ |= tensor.defined() && !tensor.device().is_privateuseone();
        }
      }
      break;
    }
    case ArgKind::Scalar:
    case ArgKind::Float:
      add_scalar(value, arg);
      break;
    case ArgKind::ScalarList:
    case ArgKind::FloatList: {
      const auto list = value.toListRef();
      push(tagged(kList, list.size()));
      for (const c10::IValue& element : list) add_scalar(element, arg);
      break;
    }
    case ArgKind::Int:
    case ArgKind::DType:
      push(tagged(kInt, 0));
      push(static_cast<uint64_t>(int_of(value)));
      break;
    case ArgKind::IntList: {
      const auto list = value.toListRef();
      push(tagged(kList, list.size()));
      for (const c10::IValue& element : list) push(static_cast<uint64_t>(int_of(element)));
      break;
    }
    case ArgKind::Bool:
      push(tagged(kBool, value.toBool()));
      break;
    case ArgKind::BoolList: {
      const auto list = value.toListRef();
      push(tagged(kList, list.size()));
      for (const c10::IValue& element : list) push(element.toBool());
      break;
    }
    case ArgKind::String:
      push_text(value.toStringRef());
      break;
    case ArgKind::Generator:
    case ArgKind::Ignored:
      break;
  }
}

}  // namespace torch_tpu::aten
