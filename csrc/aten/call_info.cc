#include "aten/call_info.h"

#include <c10/core/DefaultDtype.h>
#include <c10/util/StringUtil.h>

#include <vector>

namespace torch_tpu::aten {

using Kind = engine::KeyPart::Kind;
using lowering::ViewKind;

namespace {

std::string text_of(c10::ScalarType dtype) { return std::string(c10::getDtypeNames(dtype).first); }

const char* text_of(stablehlo::Precision precision) {
  switch (precision) {
    case stablehlo::Precision::Default:
      return "default";
    case stablehlo::Precision::High:
      return "high";
    default:
      return "highest";
  }
}

/// How the program gets the tensor's elements from its storage.
const char* text_of(ViewKind kind) {
  switch (kind) {
    case ViewKind::Empty:
      return "no elements";
    case ViewKind::Whole:
      return "all of a storage";
    case ViewKind::Sliced:
      return "a slice of a storage";
    case ViewKind::Window:
      return "a window of a storage";
    default:
      return "scattered elements of a storage";
  }
}

class Describer {
 public:
  Describer(const Form& form, const CallKey& key) : form_(form) {
    info_.name = form.user_name;
    if (form.op->uses_precision) add(Kind::Setting, "precision", text_of(key.precision()));
  }

  void argument(const c10::IValue& value, size_t i) {
    const FormArg& arg = form_.args[i];
    if (arg.kind == ArgKind::Ignored || arg.kind == ArgKind::Generator) return;
    const std::string name = "argument " + std::to_string(i + 1) + " (" +
                             form_.handle.schema().arguments()[i].name() + ")";
    switch (value.isNone() ? ArgKind::Ignored : arg.kind) {
      case ArgKind::Tensor:
        tensor(value.toTensor(), name);
        break;
      case ArgKind::TensorList:
        tensors(value.toListRef(), name);
        break;
      case ArgKind::Scalar:
      case ArgKind::Float:
        scalar(value, arg, name);
        break;
      case ArgKind::ScalarList:
      case ArgKind::FloatList:
        scalars(value.toListRef(), arg, name);
        break;
      case ArgKind::DType:
        add(Kind::DType, name, text_of(static_cast<c10::ScalarType>(value.toInt())));
        break;
      default:
        add(Kind::Other, name, c10::str(value));
    }
  }

  engine::CallInfo finish() {
    add(Kind::Setting, "default dtype", text_of(c10::get_default_dtype_as_scalartype()));
    return std::move(info_);
  }

 private:
  void add(Kind kind, std::string what, std::string value) {
    info_.parts.push_back({kind, std::move(what), std::move(value)});
  }

  void tensor(const at::Tensor& tensor, const std::string& name) {
    if (!tensor.defined()) return add(Kind::Other, name, "None");
    if (!tensor.device().is_privateuseone()) {
      add(Kind::Other, name, "a number on the CPU");
      return add(Kind::DType, "dtype of " + name, text_of(tensor.scalar_type()));
    }
    add(Kind::Other, name, "a tensor");
    add(Kind::Shape, "shape of " + name, c10::str(tensor.sizes()));
    add(Kind::DType, "dtype of " + name, text_of(tensor.scalar_type()));
    add(Kind::Layout, "strides of " + name,
        tensor.is_contiguous() ? "contiguous" : c10::str(tensor.strides()));
    std::string bits = tensor.is_conj() ? "conj " : "";
    if (tensor.is_neg()) bits += "neg ";
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) bits += "number";
    add(Kind::Layout, "lazy bits of " + name, bits.empty() ? "none" : bits);
    SeenTensor seen;
    see(tensor, seen);
    if (seen.plan.kind == ViewKind::Empty) return;
    storage(seen, tensor, name);
  }

  void storage(const SeenTensor& seen, const at::Tensor& tensor, const std::string& name) {
    const stablehlo::Type& base = seen.storage->base;
    const bool same = base.dtype == seen.dtype && base.numel() == tensor.numel();
    add(Kind::Layout, "view of " + name, text_of(seen.plan.kind));
    // Of a dense tensor that has its storage for itself the shape says it all.
    if (!same || seen.plan.kind != ViewKind::Whole) {
      add(Kind::Layout, "storage of " + name, to_string(base));
    }
    size_t first = 0;
    while (first < storages_.size() && storages_[first] != seen.storage) ++first;
    if (first < storages_.size()) {
      add(Kind::Layout, "memory of " + name, "shared with " + owners_[first]);
    } else {
      storages_.push_back(seen.storage);
      owners_.push_back(name);
      add(Kind::Layout, "memory of " + name, "its own");
    }
  }

  void tensors(c10::ArrayRef<c10::IValue> list, const std::string& name) {
    add(Kind::Other, "number of tensors in " + name, std::to_string(list.size()));
    for (size_t k = 0; k < list.size(); ++k) {
      const std::string element = "tensor " + std::to_string(k + 1) + " of " + name;
      tensor(list[k].isNone() ? at::Tensor() : list[k].toTensor(), element);
    }
  }

  void scalars(c10::ArrayRef<c10::IValue> list, const FormArg& arg, const std::string& name) {
    add(Kind::Other, "number of values in " + name, std::to_string(list.size()));
    for (size_t k = 0; k < list.size(); ++k) {
      scalar(list[k], arg, "value " + std::to_string(k + 1) + " of " + name);
    }
  }

  void scalar(const c10::IValue& value, const FormArg& arg, const std::string& name) {
    if (value.isTensor()) return tensor(value.toTensor(), name);
    const char* kind = value.isBool()     ? "run-time bool"
                       : value.isInt()    ? "run-time int"
                       : value.isDouble() ? "run-time float"
                                          : "run-time complex";
    bool is_static = arg.is_static;
    if (value.isInt() || value.isDouble()) {
      for (double special : form_.op->special_values) {
        is_static |= value.toScalar().toDouble() == special;
      }
    }
    add(Kind::Number, name, is_static ? "static " + c10::str(value) : std::string(kind));
  }

  const Form& form_;
  engine::CallInfo info_;
  std::vector<const engine::Storage*> storages_;
  std::vector<std::string> owners_;
};

}  // namespace

std::shared_ptr<const engine::CallInfo> call_info(const Form& form, const CallKey& key,
                                                  c10::ArrayRef<c10::IValue> arguments) {
  Describer describer(form, key);
  for (size_t i = 0; i < arguments.size(); ++i) describer.argument(arguments[i], i);
  return std::make_shared<const engine::CallInfo>(describer.finish());
}

}  // namespace torch_tpu::aten
