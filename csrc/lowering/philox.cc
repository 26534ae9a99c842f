#include "lowering/philox.h"

#include <array>

namespace torch_tpu::lowering {

using stablehlo::Builder;
using stablehlo::DType;
using stablehlo::Value;

namespace {

constexpr int64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
constexpr int64_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

Value low_word(Value x) { return stablehlo::convert(x, DType::U32); }

Value high_word(Value x) {
  Builder& b = x.builder();
  return low_word(b.binary("shift_right_logical", x, b.constant_int(DType::U64, 32, x.dims())));
}

/// Both halves of the 64-bit product with a constant.
std::array<Value, 2> multiply(Value x, int64_t factor) {
  Builder& b = x.builder();
  const Value wide = stablehlo::convert(x, DType::U64);
  const Value product = wide * b.constant_int(DType::U64, factor, x.dims());
  return {high_word(product), low_word(product)};
}

}  // namespace

Value philox_words(Value seed, Value offset, uint64_t first_block, int64_t count) {
  Builder& b = seed.builder();
  const int64_t blocks = (count + 3) / 4;
  const stablehlo::Dims dims{blocks};
  const Value first = offset + b.constant_int(DType::U64, static_cast<int64_t>(first_block));
  const Value counter = stablehlo::broadcast_to(first, dims) + b.iota({DType::U64, dims}, 0);
  std::array<Value, 4> c{low_word(counter), high_word(counter), b.zeros({DType::U32, dims}),
                         b.zeros({DType::U32, dims})};
  std::array<Value, 2> key{stablehlo::broadcast_to(low_word(seed), dims),
                           stablehlo::broadcast_to(high_word(seed), dims)};
  for (int round = 0; round < kRounds; ++round) {
    const auto [high0, low0] = multiply(c[0], kMultiplier0);
    const auto [high1, low1] = multiply(c[2], kMultiplier1);
    c = {stablehlo::logical_xor(stablehlo::logical_xor(high1, c[1]), key[0]), low1,
         stablehlo::logical_xor(stablehlo::logical_xor(high0, c[3]), key[1]), low0};
    key = {key[0] + b.constant_int(DType::U32, kWeyl0, dims),
           key[1] + b.constant_int(DType::U32, kWeyl1, dims)};
  }
  std::array<Value, 4> columns;
  for (int i = 0; i < 4; ++i) columns[i] = b.reshape(c[i], {blocks, 1});
  const Value words = b.reshape(b.concatenate(columns, 1), {blocks * 4});
  return blocks * 4 == count ? words : b.slice(words, {0}, {count});
}

}  // namespace torch_tpu::lowering
