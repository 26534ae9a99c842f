// Graphs of torch.compile: one program for all of a graph's operators.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/capture.h"

namespace torch_tpu::aten {

/// Arguments of a graph's call: tensors, numbers that the graph was captured for, None. The tensors
/// that are not dense in memory of their own, or not on the device, are copied.
class GraphCall {
 public:
  /// `exact[i]`: argument i is taken as the view of its storage that it is, its offset included.
  GraphCall(std::vector<c10::IValue> args, const std::vector<bool>& exact, c10::DeviceIndex device);

  struct Arg {
    at::Tensor given;    // undefined if it is no tensor
    at::Tensor taken;    // `given` or a copy of it
    size_t storage = 0;  // of `taken`: position in storages
    bool is_copy() const { return !taken.is_same(given); }
  };
  std::vector<Arg> args;
  std::vector<engine::Storage*> storages;  // in order of first use
  std::vector<uint64_t> key;               // equal keys can run the same program

 private:
  void add(const c10::IValue& value, bool exact, c10::DeviceIndex device);
  void add_tensor(Arg arg, bool exact, c10::DeviceIndex device);
};

/// One result of a graph's program.
struct GraphResult {
  enum class Kind : uint8_t { Made, Input, Constant };
  Kind kind = Kind::Made;
  c10::IValue constant;  // no tensor: a number or None
  size_t storage = 0;    // Made: which of the storages that a run makes; Input: of the call
  c10::ScalarType dtype = c10::ScalarType::Float;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  bool is_conj = false, is_neg = false;
};

struct GraphProgram {
  engine::CapturedGraph captured;
  struct Made {
    size_t nbytes;
    stablehlo::Type base;
  };
  std::vector<Made> made;             // storages that a run makes
  std::vector<c10::Storage> adopted;  // inputs that are no arguments
  std::vector<GraphResult> results;
};

/// The programs of one graph, one for each geometry of its arguments. Thread-safe.
class Graph {
 public:
  Graph(std::string name, std::vector<bool> exact, c10::DeviceIndex device)
      : name_(std::move(name)), exact_(std::move(exact)), device_(device) {}

  const std::string& name() const { return name_; }
  c10::DeviceIndex device() const { return device_; }
  GraphCall call(std::vector<c10::IValue> args) const { return {std::move(args), exact_, device_}; }
  /// The program for a call's key; null if it is to be captured.
  std::shared_ptr<const GraphProgram> find(const GraphCall& call);
  void add(const GraphCall& call, std::shared_ptr<const GraphProgram> program);
  /// Runs it and gives its results. Arguments that it changes are changed.
  static std::vector<c10::IValue> run(const GraphProgram& program, const GraphCall& call,
                                      c10::DeviceIndex device);

 private:
  struct Hash {
    size_t operator()(const std::vector<uint64_t>& key) const;
  };
  std::string name_;
  std::vector<bool> exact_;
  c10::DeviceIndex device_;
  friend class GraphCapture;
  std::mutex captured_mutex_;  // held while a program of the graph is compiled
  engine::CapturedPrograms captured_;
  std::mutex mutex_;
  std::unordered_map<std::vector<uint64_t>, std::shared_ptr<const GraphProgram>, Hash> programs_;
};

/// Captures the program of a graph's call: between the construction and finish(), operators on the
/// placeholders are recorded, on the thread that is within a Scope.
class GraphCapture {
 public:
  /// `adopts`: other tensors of the device that are used become inputs, and are updated by each run
  /// as they are updated here.
  GraphCapture(Graph& graph, const GraphCall& call, bool adopts);

  /// Within a scope, the operators of this thread are recorded.
  class Scope {
   public:
    explicit Scope(GraphCapture& capture);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    GraphCapture* before_;
    engine::Capture::Scope engine_scope_;
  };
  /// Called for the tensors that an operator uses while the thread captures: they live on.
  static void note_use(const at::Tensor& tensor);

  /// In place of the call's tensors; undefined where an argument is no tensor.
  const std::vector<at::Tensor>& placeholders() const { return placeholders_; }
  engine::Capture& capture() { return capture_; }
  /// Compiles the program that gives these tensors and numbers. Must be called within the scope of
  /// the device.
  std::shared_ptr<const GraphProgram> finish(std::vector<c10::IValue> results);

 private:
  at::Tensor settled(const at::Tensor& result, const std::vector<c10::IValue>& all);
  GraphResult describe(const at::Tensor& tensor, GraphProgram& program,
                       std::vector<engine::Storage*>& outputs) const;
  std::optional<size_t> input_of(const engine::Storage& storage) const;

  Graph& graph_;
  const GraphCall& call_;
  engine::Capture capture_;
  std::unordered_map<engine::Storage*, c10::Storage> outside_;  // real storages in use
  std::vector<at::Tensor> placeholders_;
  std::vector<engine::Storage*> inputs_;  // in place of call.storages
};

}  // namespace torch_tpu::aten
