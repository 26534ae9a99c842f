#include "distributed/abstract_group.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/cat.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "aten/native.h"
#include "engine/capture.h"

namespace torch_tpu::distributed {
namespace {

using Tensors = std::vector<at::Tensor>;
using WorkPtr = c10::intrusive_ptr<c10d::Work>;

std::mutex mutex;
std::vector<Collective> collectives;

/// Work that is part of the program: there is nothing to wait for.
class RecordedWork final : public c10d::Work {
 public:
  explicit RecordedWork(Tensors results) : results_(std::move(results)) {}

  bool isCompleted() override { return true; }
  bool wait(std::chrono::milliseconds) override { return true; }
  Tensors result() override { return results_; }

  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future =
        c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(results_));
    return future;
  }

 private:
  Tensors results_;
};

WorkPtr done(Tensors results) { return c10::make_intrusive<RecordedWork>(std::move(results)); }

std::string name_of(const c10d::ReduceOp& op) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "avg";
    case c10d::ReduceOp::PRODUCT:
      return "product";
    case c10d::ReduceOp::MIN:
      return "min";
    case c10d::ReduceOp::MAX:
      return "max";
    case c10d::ReduceOp::BAND:
      return "band";
    case c10d::ReduceOp::BOR:
      return "bor";
    case c10d::ReduceOp::BXOR:
      return "bxor";
    default:
      TORCH_CHECK(false,
                  "collectives of a program for several chips have no PREMUL_SUM: scale the "
                  "tensor before");
  }
}

/// What a collective joins or cuts has a first dimension.
at::Tensor with_rows(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? tensor.reshape({1}) : tensor.contiguous();
}

class AbstractGroup final : public c10d::Backend {
 public:
  AbstractGroup(int rank, int size, std::vector<int64_t> devices)
      : Backend(rank, size), devices_(std::move(devices)) {}

  const std::string getBackendName() const override { return "tpu_aot"; }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override {
    // A sum of zeros and the root's.
    at::AutoDispatchBelowAutograd guard;
    for (at::Tensor& tensor : tensors) {
      const at::Tensor mine = rank_ == opts.rootRank ? tensor : tensor.new_zeros(tensor.sizes());
      tensor.copy_(reduced(mine, "sum"));
    }
    return done(tensors);
  }

  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override {
    at::AutoDispatchBelowAutograd guard;
    for (at::Tensor& tensor : tensors) tensor.copy_(reduced(tensor, name_of(opts.reduceOp)));
    return done(tensors);
  }

  WorkPtr allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& opts) override {
    return allreduce(tensors, opts);
  }

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override {
    at::AutoDispatchBelowAutograd guard;
    for (at::Tensor& tensor : tensors) {
      const at::Tensor sum = reduced(tensor, name_of(opts.reduceOp));
      if (rank_ == opts.rootRank) tensor.copy_(sum);
    }
    return done(tensors);
  }

  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions&) override {
    at::AutoDispatchBelowAutograd guard;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Tensors parts = gathered(inputs[i]).chunk(size_);
      for (size_t k = 0; k < parts.size(); ++k) {
        outputs[i][k].copy_(parts[k].view(outputs[i][k].sizes()));
      }
    }
    return done(outputs[0]);
  }

  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions&) override {
    at::AutoDispatchBelowAutograd guard;
    output.copy_(gathered(input).view(output.sizes()));
    return done({output});
  }

  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override {
    for (size_t i = 0; i < inputs.size(); ++i) _allgather_base(outputs[i], inputs[i], opts);
    return done(outputs);
  }

  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& opts) override {
    at::AutoDispatchBelowAutograd guard;
    for (size_t i = 0; i < outputs.size(); ++i) {
      at::Tensor whole = at::cat(flattened(inputs[i]));
      _reduce_scatter_base(outputs[i], whole, opts);
    }
    return done(outputs);
  }

  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override {
    at::AutoDispatchBelowAutograd guard;
    // A stack of the parts is cut into them as well.
    const at::Tensor whole =
        input.dim() > 0 && input.size(0) % size_ == 0 ? input.contiguous() : input.reshape({-1});
    const at::Tensor part = scattered(whole, name_of(opts.reduceOp));
    output.copy_(part.view(output.sizes()));
    return done({output});
  }

  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& opts) override {
    TORCH_CHECK_NOT_IMPLEMENTED(rank_ == opts.rootRank, "scatter from another rank than 0");
    return reduce_scatter(outputs, inputs, {});
  }

  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override {
    for (size_t i = 0; i < inputs.size(); ++i) _reduce_scatter_base(outputs[i], inputs[i], opts);
    return done(outputs);
  }

  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
                        std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions&) override {
    for (const auto* sizes : {&output_sizes, &input_sizes}) {
      TORCH_CHECK(std::ranges::adjacent_find(*sizes, std::ranges::not_equal_to{}) == sizes->end(),
                  "all_to_all with parts of different sizes has no program for several chips: pad "
                  "the parts to one size");
    }
    at::AutoDispatchBelowAutograd guard;
    output.copy_(exchanged(input).view(output.sizes()));
    return done({output});
  }

  WorkPtr barrier(const c10d::BarrierOptions&) override { return done({}); }

  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) override {
    at::AutoDispatchBelowAutograd guard;
    for (const at::Tensor& input : inputs) {
      TORCH_CHECK(input.sizes() == inputs[0].sizes(),
                  "all_to_all with parts of different sizes has no program for several chips: pad "
                  "the parts to one size");
    }
    const Tensors parts = exchanged(at::cat(flattened(inputs))).chunk(size_);
    for (size_t k = 0; k < parts.size(); ++k) outputs[k].copy_(parts[k].view(outputs[k].sizes()));
    return done(outputs);
  }

 private:
  int64_t size() const { return size_; }

  /// Notes a collective of this tensor. False if it is not one of our device: what libraries
  /// exchange on the host while they set up is of no program, and the other ranks say the same.
  bool is_recorded(const char* kind, const at::Tensor& tensor, int64_t times = 1) const {
    if (!tensor.device().is_privateuseone()) return false;
    TORCH_CHECK(engine::Capture::current(),
                "this process group is of chips that are not there: its collectives can be a part "
                "of a program that torch_tpu.aot compiles, and cannot run");
    std::lock_guard lock(mutex);
    const auto bytes = static_cast<int64_t>(tensor.nbytes()) * times;
    collectives.push_back({kind, getGroupDesc(), size_, bytes});
    return true;
  }

  static Tensors flattened(const Tensors& tensors) {
    Tensors flat;
    for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}));
    return flat;
  }

  at::Tensor gathered(const at::Tensor& input) const {
    const at::Tensor rows = with_rows(input);
    if (!is_recorded("all_gather", input, size_)) return at::cat(Tensors(size(), rows));
    return aten::native("torch_tpu::all_gather", rows, devices_, size())[0].toTensor();
  }

  at::Tensor reduced(const at::Tensor& input, const std::string& reduction) const {
    if (!is_recorded("all_reduce", input)) return input;
    return aten::native("torch_tpu::all_reduce", input, reduction, devices_, size())[0].toTensor();
  }

  at::Tensor scattered(const at::Tensor& input, const std::string& reduction) const {
    if (!is_recorded("reduce_scatter", input)) return input.chunk(size_)[rank_];
    return aten::native("torch_tpu::reduce_scatter", input, reduction, devices_, size())[0]
        .toTensor();
  }

  at::Tensor exchanged(const at::Tensor& input) const {
    const at::Tensor rows = with_rows(input);
    if (!is_recorded("all_to_all", input)) return rows;
    return aten::native("torch_tpu::all_to_all", rows, devices_, size())[0].toTensor();
  }

  std::vector<int64_t> devices_;
};

}  // namespace

c10::intrusive_ptr<c10d::Backend> make_abstract_group(int rank, int size,
                                                      std::vector<int64_t> devices) {
  return c10::make_intrusive<AbstractGroup>(rank, size, std::move(devices));
}

std::vector<Collective> take_collectives() {
  std::lock_guard lock(mutex);
  return std::exchange(collectives, {});
}

}  // namespace torch_tpu::distributed
