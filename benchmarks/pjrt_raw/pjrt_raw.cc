// Measures the calls that a PJRT plugin's user makes per operator. One table, times in
// microseconds: the minimum over rounds, the cases interleaved, so that a busy machine harms all of
// them alike.
//
//   pjrt_raw PLUGIN [ROUNDS]

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "pjrt/client.h"
#include "pjrt/compile_options.h"

namespace {

using namespace torch_tpu::pjrt;
using Clock = std::chrono::steady_clock;

constexpr const char* add_program = R"(
module @add {
  func.func public @main(%a: tensor<16x16xf32>, %b: tensor<16x16xf32>) -> tensor<16x16xf32> {
    %0 = stablehlo.add %a, %b : tensor<16x16xf32>
    return %0 : tensor<16x16xf32>
  }
})";

constexpr const char* add_scalar_program = R"(
module @add_scalar {
  func.func public @main(%a: tensor<16x16xf32>, %b: tensor<2xui32>) -> tensor<16x16xf32> {
    %0 = stablehlo.slice %b [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %1 = stablehlo.bitcast_convert %0 : (tensor<1xui32>) -> tensor<1xf32>
    %2 = stablehlo.reshape %1 : (tensor<1xf32>) -> tensor<f32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<16x16xf32>
    %4 = stablehlo.add %a, %3 : tensor<16x16xf32>
    return %4 : tensor<16x16xf32>
  }
})";

constexpr const char* smallest_program = R"(
module @smallest {
  func.func public @main(%a: tensor<2xui32>) -> tensor<2xui32> {
    %0 = stablehlo.add %a, %a : tensor<2xui32>
    return %0 : tensor<2xui32>
  }
})";

constexpr const char* matmul_program = R"(
module @matmul {
  func.func public @main(%a: tensor<1024x1024xf32>, %b: tensor<1024x1024xf32>)
      -> tensor<1024x1024xf32> {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
       : (tensor<1024x1024xf32>, tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
    return %0 : tensor<1024x1024xf32>
  }
})";

constexpr const char* convolution_nhwc_program = R"(
module @convolution {
  func.func public @main(%x: tensor<8x56x56x64xf32>, %w: tensor<3x3x64x64xf32>)
      -> tensor<8x56x56x64xf32> {
    %0 = stablehlo.convolution(%x, %w)
      dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {pad = [[1, 1], [1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<8x56x56x64xf32>, tensor<3x3x64x64xf32>) -> tensor<8x56x56x64xf32>
    return %0 : tensor<8x56x56x64xf32>
  }
})";

constexpr const char* convolution_nchw_program = R"(
module @convolution {
  func.func public @main(%x: tensor<8x64x56x56xf32>, %w: tensor<64x64x3x3xf32>)
      -> tensor<8x64x56x56xf32> {
    %0 = stablehlo.convolution(%x, %w)
      dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {pad = [[1, 1], [1, 1]]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<8x64x56x56xf32>, tensor<64x64x3x3xf32>) -> tensor<8x64x56x56xf32>
    return %0 : tensor<8x64x56x56xf32>
  }
})";

struct Case {
  std::string name;
  int repetitions;
  std::function<void(int repetitions)> run;
  double best_us = std::numeric_limits<double>::infinity();
};

/// Everything that the cases use, on one device.
class Bench {
 public:
  explicit Bench(const std::string& path)
      : plugin(Plugin::load(path)),
        client(Client::create(plugin, {{"cpu_device_count", int64_t{1}}})),
        device(client->addressable_devices()[0]) {}

  LoadedExecutable compile(const char* program) const { return client->compile(program, options); }

  Buffer filled(std::vector<int64_t> dims) const {
    const std::vector<float> data(host_size(dims), 0.5f);
    Buffer buffer = client->buffer_from_host(data.data(), PJRT_Buffer_Type_F32, dims, {}, device,
                                             HostBufferSemantics::ImmutableOnlyDuringCall);
    buffer.await();
    return buffer;
  }

  Buffer small(HostBufferSemantics semantics) const {
    return client->buffer_from_host(slot, PJRT_Buffer_Type_U32, small_dims, {}, device, semantics);
  }

  Buffer view(Client::OnDelete on_delete = nullptr) const {
    return client->view_of_device_memory(slot, PJRT_Buffer_Type_U32, small_dims, device, on_delete,
                                         nullptr);
  }

  static Buffer run(const LoadedExecutable& program, const Buffer& a, const Buffer& b) {
    const std::array<PJRT_Buffer*, 2> args = {a.raw(), b.raw()};
    PJRT_Buffer* out = nullptr;
    program.execute(args.data(), args.size(), &out);
    return {a.api(), out};
  }

  static size_t host_size(const std::vector<int64_t>& dims) {
    size_t size = 1;
    for (int64_t dim : dims) {
      size *= static_cast<size_t>(dim);
    }
    return size;
  }

  std::shared_ptr<const Plugin> plugin;
  std::shared_ptr<Client> client;
  const Device& device;
  const std::string options = CompileOptions{.portable = false}.serialize();
  static constexpr std::array<int64_t, 1> small_dims = {2};
  alignas(64) inline static unsigned char slot[64] = {};
};

/// Fresh operands without making a buffer: a ring of slots, each with a view of it that stays. A
/// slot may be written again when the program that last read it has ended.
class SlotRing {
 public:
  explicit SlotRing(const Bench& bench) : slots_(64) {
    for (Slot& slot : slots_) {
      slot.view = bench.client->view_of_device_memory(
          slot.memory, PJRT_Buffer_Type_U32, Bench::small_dims, bench.device, nullptr, nullptr);
    }
  }

  void run(const LoadedExecutable& program, const Buffer& a) {
    Slot& slot = slots_[next_++ % slots_.size()];
    if (!slot.done.is_ready()) {
      slot.done.await();
    }
    std::memcpy(slot.memory, &next_, sizeof(next_));
    const std::array<PJRT_Buffer*, 2> args = {a.raw(), slot.view.raw()};
    PJRT_Buffer* out = nullptr;
    PJRT_Event* done = nullptr;
    program.execute(args.data(), args.size(), &out, nullptr, {}, &done);
    slot.done = Event(a.api(), done);
    Buffer(a.api(), out);
  }

 private:
  struct alignas(64) Slot {
    unsigned char memory[64] = {};
    Buffer view;
    Event done;
  };
  std::vector<Slot> slots_;
  uint64_t next_ = 0;
};

double measure_us(const Case& c) {
  if (c.repetitions > 1) {
    c.run(c.repetitions / 10);  // The case before has taken the caches.
  }
  const auto start = Clock::now();
  c.run(c.repetitions);
  const std::chrono::duration<double, std::micro> time = Clock::now() - start;
  return time.count() / c.repetitions;
}

template <class Body>
std::function<void(int)> each(Body body) {
  return [body = std::move(body)](int repetitions) {
    for (int i = 0; i < repetitions; ++i) {
      body();
    }
  };
}

void run_cases(std::vector<Case>& cases, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (Case& c : cases) {
      c.best_us = std::min(c.best_us, measure_us(c));
    }
  }
  for (const Case& c : cases) {
    std::printf("%-58s %12.3f\n", c.name.c_str(), c.best_us);
  }
}

void run_benchmark(const std::string& path, int rounds) {
  const Bench bench(path);
  const ApiVersion version = bench.plugin->api_version();
  std::printf("# %s, PJRT %d.%d, minimum of %d rounds, microseconds\n", path.c_str(), version.major,
              version.minor, rounds);

  const LoadedExecutable add = bench.compile(add_program);
  const LoadedExecutable portable_add =
      bench.client->compile(add_program, CompileOptions{}.serialize());
  const LoadedExecutable add_scalar = bench.compile(add_scalar_program);
  const LoadedExecutable smallest = bench.compile(smallest_program);
  const LoadedExecutable matmul = bench.compile(matmul_program);
  const LoadedExecutable nhwc = bench.compile(convolution_nhwc_program);
  const LoadedExecutable nchw = bench.compile(convolution_nchw_program);
  const std::string serialized = smallest.serialize();
  const Buffer a = bench.filled({16, 16});
  const Buffer b = bench.filled({16, 16});
  const Buffer m = bench.filled({1024, 1024});
  const Buffer x_nhwc = bench.filled({8, 56, 56, 64});
  const Buffer w_nhwc = bench.filled({3, 3, 64, 64});
  const Buffer x_nchw = bench.filled({8, 64, 56, 56});
  const Buffer w_nchw = bench.filled({64, 64, 3, 3});
  const Buffer word = bench.small(HostBufferSemantics::ImmutableOnlyDuringCall);
  word.await();

  using Semantics = HostBufferSemantics;
  std::vector<Case> cases;
  const auto add_case = [&](std::string name, int repetitions, auto body) {
    cases.push_back({std::move(name), repetitions, each(std::move(body))});
  };

  // Short enough to fit between two interruptions on a busy machine.
  constexpr int many = 200;
  add_case("execute add 16x16 and drop the output", many, [&] { Bench::run(add, a, b); });
  add_case("  the same, portable, device given", many, [&] {
    const std::array<PJRT_Buffer*, 2> args = {a.raw(), b.raw()};
    PJRT_Buffer* out = nullptr;
    portable_add.execute(args.data(), args.size(), &out, bench.device.raw());
    Buffer(a.api(), out);
  });
  add_case("  and ask for the done event", many, [&] {
    const std::array<PJRT_Buffer*, 2> args = {a.raw(), b.raw()};
    PJRT_Buffer* out = nullptr;
    PJRT_Event* done = nullptr;
    add.execute(args.data(), args.size(), &out, nullptr, {}, &done);
    Event(a.api(), done);
    Buffer(a.api(), out);
  });
  add_case("  and await the output", many, [&] { Bench::run(add, a, b).await(); });
  add_case("  and ask is_ready of the output", many, [&] { Bench::run(add, a, b).is_ready(); });

  add_case("buffer_from_host 8 B, only during call", many,
           [&] { bench.small(Semantics::ImmutableOnlyDuringCall); });
  add_case("buffer_from_host 8 B, until transfer completes", many,
           [&] { bench.small(Semantics::ImmutableUntilTransferCompletes); });
  add_case("buffer_from_host 8 B aligned, immutable zero copy", many,
           [&] { bench.small(Semantics::ImmutableZeroCopy); });
  add_case("buffer_from_host 8 B aligned, mutable zero copy", many,
           [&] { bench.small(Semantics::MutableZeroCopy); });
  add_case("view_of_device_memory 8 B", many, [&] { bench.view(); });

  add_case("execute add of a scalar, persistent operand", many,
           [&] { Bench::run(add_scalar, a, word); });
  add_case("  operand fresh: only during call", many,
           [&] { Bench::run(add_scalar, a, bench.small(Semantics::ImmutableOnlyDuringCall)); });
  add_case("  operand fresh: view", many, [&] { Bench::run(add_scalar, a, bench.view()); });

  SlotRing ring(bench);
  add_case("  operand fresh: slot of a ring, with done events", many,
           [&] { ring.run(add_scalar, a); });

  add_case("dims()", many, [&] { return word.dims(); });
  add_case("is_ready() of a ready buffer", many, [&] { return word.is_ready(); });
  add_case("unsafe_pointer() of a ready buffer", many, [&] { return word.unsafe_pointer(); });
  add_case("read 8 B: to_host and await", many / 10, [&] {
    std::array<unsigned, 2> value;
    word.to_host(value.data(), sizeof(value)).await();
  });
  add_case("read 8 B: await and unsafe_pointer", many, [&] {
    std::array<unsigned, 2> value;
    word.await();
    std::memcpy(value.data(), reinterpret_cast<const void*>(word.unsafe_pointer()), sizeof(value));
  });

  add_case("compile the smallest program", 1, [&] { bench.compile(smallest_program); });
  add_case("load the smallest program, serialized", 1, [&] { bench.client->load(serialized); });
  add_case("matmul f32 1024", 1, [&] { Bench::run(matmul, m, m).await(); });
  add_case("convolution 3x3 f32 8x56x56x64 -> 64, NHWC", 1,
           [&] { Bench::run(nhwc, x_nhwc, w_nhwc).await(); });
  add_case("convolution 3x3 f32 8x56x56x64 -> 64, NCHW", 1,
           [&] { Bench::run(nchw, x_nchw, w_nchw).await(); });

  run_cases(cases, rounds);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: pjrt_raw PLUGIN [ROUNDS]\n");
    return 2;
  }
  try {
    run_benchmark(argv[1], argc > 2 ? std::atoi(argv[2]) : 50);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pjrt_raw: %s\n", error.what());
    return 1;
  }
  return 0;
}
