// Random number generators: Philox with a 16-byte state (seed, offset).
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace torch_tpu::device {

/// The state tensor is 16 bytes on the CPU: seed and offset, 64 bits each, little-endian. One unit
/// of the offset is one block of four 32-bit words. Safe to use from any thread.
class GeneratorImpl : public c10::GeneratorImpl {
 public:
  explicit GeneratorImpl(c10::DeviceIndex index);

  /// (seed, offset) for a program that draws `blocks` blocks of four 32-bit words; the offset moves
  /// on.
  std::pair<uint64_t, uint64_t> reserve(uint64_t blocks);

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  /// Shares the other generator's state from now on.
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override;
  /// A generator that shares this one's state.
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

 private:
  struct State {
    std::mutex mutex;
    uint64_t seed = c10::default_rng_seed_val;
    uint64_t offset = 0;
  };

  GeneratorImpl* clone_impl() const override;
  std::pair<uint64_t, uint64_t> read() const;
  void write(uint64_t seed, uint64_t offset);

  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// The device's default generator; made at first use, without starting the runtime. -1: the current
/// device.
const at::Generator& default_generator(c10::DeviceIndex index);
/// Seeds the default generators of all devices, also of those not used yet. Starts nothing.
void seed_default_generators(uint64_t seed);
/// The given generator if it is there and of this device (else throws), or the default one.
GeneratorImpl& generator_or_default(const std::optional<at::Generator>& generator,
                                    c10::DeviceIndex index);

}  // namespace torch_tpu::device
