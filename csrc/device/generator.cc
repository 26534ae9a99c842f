#include "device/generator.h"

#include <ATen/Utils.h>
#include <ATen/ops/empty.h>
#include <c10/util/CallOnce.h>

#include <array>
#include <atomic>
#include <cstring>
#include <limits>

#include "device/current.h"

namespace torch_tpu::device {
namespace {

constexpr size_t kStateBytes = 2 * sizeof(uint64_t);

/// Made one by one at first use. Their number is bounded by the type of a device index.
struct DefaultGenerators {
  static constexpr size_t kMost = std::numeric_limits<c10::DeviceIndex>::max() + 1;
  std::mutex mutex;
  std::array<std::atomic<bool>, kMost> made{};
  std::array<at::Generator, kMost> generators;
  std::optional<uint64_t> seed;  // of generators that are not made yet
};

DefaultGenerators& defaults() {
  static DefaultGenerators* instance = new DefaultGenerators;
  return *instance;
}

}  // namespace

GeneratorImpl::GeneratorImpl(c10::DeviceIndex index)
    : c10::GeneratorImpl(c10::Device(c10::DeviceType::PrivateUse1, index),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

std::pair<uint64_t, uint64_t> GeneratorImpl::read() const {
  std::lock_guard lock(state_->mutex);
  return {state_->seed, state_->offset};
}

void GeneratorImpl::write(uint64_t seed, uint64_t offset) {
  std::lock_guard lock(state_->mutex);
  state_->seed = seed;
  state_->offset = offset;
}

std::pair<uint64_t, uint64_t> GeneratorImpl::reserve(uint64_t blocks) {
  std::lock_guard lock(state_->mutex);
  const uint64_t first = state_->offset;
  state_->offset += blocks;
  return {state_->seed, first};
}

void GeneratorImpl::set_current_seed(uint64_t seed) { write(seed, 0); }

uint64_t GeneratorImpl::current_seed() const { return read().first; }

uint64_t GeneratorImpl::seed() {
  const uint64_t random = c10::detail::getNonDeterministicRandom(/*is_cuda=*/true);
  set_current_seed(random);
  return random;
}

void GeneratorImpl::set_offset(uint64_t offset) { write(read().first, offset); }

uint64_t GeneratorImpl::get_offset() const { return read().second; }

void GeneratorImpl::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes, "the state of a tpu generator has ", kStateBytes,
              " bytes, but this one has ", state.numel());
  uint64_t words[2];
  std::memcpy(words, state.data_dtype_initialized<uint8_t>(), kStateBytes);
  write(words[0], words[1]);
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const {
  const auto [seed, offset] = read();
  const uint64_t words[2] = {seed, offset};
  at::Tensor state =
      at::empty({static_cast<int64_t>(kStateBytes)}, at::TensorOptions(at::kCPU).dtype(at::kByte));
  std::memcpy(state.mutable_data_ptr<uint8_t>(), words, kStateBytes);
  return state.getIntrusivePtr();
}

void GeneratorImpl::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) {
  auto* other = dynamic_cast<GeneratorImpl*>(state.get());
  TORCH_CHECK(other != nullptr, "expected a generator of the tpu device");
  state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> GeneratorImpl::graphsafe_get_state() const {
  auto shared = c10::make_intrusive<GeneratorImpl>(device().index());
  shared->state_ = state_;
  return shared;
}

GeneratorImpl* GeneratorImpl::clone_impl() const {
  auto* copy = new GeneratorImpl(device().index());
  const auto [seed, offset] = read();
  copy->write(seed, offset);
  return copy;
}

const at::Generator& default_generator(c10::DeviceIndex index) {
  if (index < 0) index = current_device();
  DefaultGenerators& d = defaults();
  if (!d.made[index].load(std::memory_order_acquire)) {
    std::lock_guard lock(d.mutex);
    if (!d.made[index].load(std::memory_order_relaxed)) {
      d.generators[index] = at::make_generator<GeneratorImpl>(index);
      if (d.seed) {
        d.generators[index].set_current_seed(*d.seed);
      } else {
        d.generators[index].seed();
      }
      d.made[index].store(true, std::memory_order_release);
    }
  }
  return d.generators[index];
}

void seed_default_generators(uint64_t seed) {
  DefaultGenerators& d = defaults();
  std::lock_guard lock(d.mutex);
  d.seed = seed;
  for (size_t i = 0; i < DefaultGenerators::kMost; ++i) {
    if (d.made[i].load(std::memory_order_relaxed)) d.generators[i].set_current_seed(seed);
  }
}

GeneratorImpl& generator_or_default(const std::optional<at::Generator>& generator,
                                    c10::DeviceIndex index) {
  const bool given = generator.has_value() && generator->defined();
  const at::Generator& chosen = given ? *generator : default_generator(index);
  TORCH_CHECK(chosen.device().is_privateuseone(),
              "Expected a 'tpu' device type for generator but found '", chosen.device().type(),
              "'");
  return *static_cast<GeneratorImpl*>(chosen.unsafeGetGeneratorImpl());
}

}  // namespace torch_tpu::device
