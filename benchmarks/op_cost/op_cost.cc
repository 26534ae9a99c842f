// What this project adds to the execution of an operator: a C++ loop through at:: beside a loop of
// PJRT_LoadedExecutable_Execute over the very same program. Prints minima over interleaved rounds,
// in microseconds.
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/add.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mul.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "aten/native.h"
#include "device/allocator.h"
#include "device/current.h"
#include "engine/program_cache.h"
#include "engine/runtime.h"

namespace {

using torch_tpu::engine::Operand;
using torch_tpu::engine::Output;
using torch_tpu::engine::Program;

constexpr int kCalls = 2000;

double seconds(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Runs the program with nothing around it: fixed operands, results dropped. In-place programs feed
/// their result back.
class RawLoop {
 public:
  RawLoop(std::shared_ptr<Program> program, const std::vector<at::Tensor>& slots)
      : program_(std::move(program)),
        device_(torch_tpu::device::engine_device(0)),
        outs_(program_->outputs.size()) {
    for (const Operand& operand : program_->operands) {
      if (operand.kind == Operand::Kind::Slot) {
        auto& storage = torch_tpu::device::storage_of(slots.at(operand.slot));
        std::vector<std::byte> bytes(storage.base_bytes);
        device_.download(storage, bytes.data());
        owned_.push_back(device_.upload(bytes.data(), storage.base));
        slot_of_arg_.push_back(operand.slot);
      } else {
        const std::vector<uint32_t> words(program_->param_words);
        owned_.push_back(device_.upload(
            words.data(), {torch_tpu::stablehlo::DType::U32, {program_->param_words}}));
        slot_of_arg_.push_back(-1);
      }
      args_.push_back(owned_.back().raw());
    }
  }

  void run() {
    for (int i = 0; i < kCalls; ++i) {
      program_->executable->execute(args_.data(), args_.size(), outs_.data(), device_.pjrt().raw());
      for (size_t k = 0; k < outs_.size(); ++k) {
        torch_tpu::pjrt::Buffer result(device_.client().api(), outs_[k]);
        if (program_->outputs[k].kind != Output::Kind::Slot) continue;
        for (size_t a = 0; a < args_.size(); ++a) {
          if (slot_of_arg_[a] != program_->outputs[k].index) continue;
          owned_[a] = std::move(result);
          args_[a] = owned_[a].raw();
        }
      }
    }
  }

 private:
  std::shared_ptr<Program> program_;
  torch_tpu::engine::Device& device_;
  std::vector<PJRT_Buffer*> args_, outs_;
  std::vector<torch_tpu::pjrt::Buffer> owned_;
  std::vector<int> slot_of_arg_;
};

struct Case {
  const char* name;
  std::function<void(int)> call;
  std::vector<at::Tensor> slots;  // of the program, in order of first use
};

void measure(const Case& c, int rounds) {
  c.call(0);
  RawLoop raw(torch_tpu::engine::ProgramCache::get().newest(), c.slots);
  const int64_t compiles =
      torch_tpu::engine::counters().compiles + torch_tpu::engine::counters().disk_cache_hits;
  double ours = 1e9, bare = 1e9;
  for (int r = 0; r < rounds; ++r) {
    bare = std::min(bare, seconds([&] { raw.run(); }));
    ours = std::min(ours, seconds([&] {
                      for (int i = 0; i < kCalls; ++i) c.call(r * kCalls + i);
                    }));
  }
  const int64_t later = torch_tpu::engine::counters().compiles +
                        torch_tpu::engine::counters().disk_cache_hits - compiles;
  const double scale = 1e6 / kCalls;
  std::printf("%-22s %8.2f %8.2f %8.2f %10ld\n", c.name, ours * scale, bare * scale,
              (ours - bare) * scale, static_cast<long>(later));
}

}  // namespace

/// Called from Python, after torch_tpu was imported: the plugin is chosen there.
extern "C" void torch_tpu_op_cost(int rounds) {
  const at::NoGradGuard no_grad;
  const auto options = at::TensorOptions(at::Device(at::kPrivateUse1, 0)).dtype(at::kFloat);
  const at::Tensor x = at::full({16, 16}, 0.5, options), y = at::full({16, 16}, 1e-6, options);
  const at::Tensor z = at::full({16, 16}, 0.5, options);
  const at::Tensor rows = at::arange(64 * 16, options).view({64, 16}),
                   row = at::full({16}, 1.0, options);
  std::printf("%-22s %8s %8s %8s %10s\n", "f32, 16x16", "ours us", "raw us", "added us",
              "compiles");
  const std::vector<Case> cases{
      {"x + y", [&](int) { at::add(x, y); }, {x, y}},
      {"x * 0.1 (changing)", [&](int i) { at::mul(x, 0.1 + i * 1e-6); }, {x}},
      {"x.add_(y)", [&](int) { z.add_(y); }, {z, y}},
      {"x[i] + y", [&](int i) { at::add(rows.select(0, i % 64), row); }, {rows, row}},
  };
  for (const Case& c : cases) measure(c, rounds);
}
