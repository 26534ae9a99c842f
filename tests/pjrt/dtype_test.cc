// Element types, and that each survives the way to the device and back.

#include <cstring>
#include <numeric>

#include "test_support.h"

namespace torch_tpu::pjrt {
namespace {

using testing::client;
using testing::device;

TEST(Dtype, Bits) {
  EXPECT_EQ(bits_of(PJRT_Buffer_Type_PRED), 8);
  EXPECT_EQ(bits_of(PJRT_Buffer_Type_S4), 4);
  EXPECT_EQ(bits_of(PJRT_Buffer_Type_U2), 2);
  EXPECT_EQ(bits_of(PJRT_Buffer_Type_BF16), 16);
  EXPECT_EQ(bits_of(PJRT_Buffer_Type_C128), 128);
  EXPECT_EQ(bits_of(PJRT_Buffer_Type_TOKEN), 0);
  EXPECT_THROW(bits_of(PJRT_Buffer_Type_INVALID), std::invalid_argument);
  EXPECT_THROW(bits_of(static_cast<PJRT_Buffer_Type>(31)), std::invalid_argument);
}

TEST(Dtype, HostByteSize) {
  using Dims = std::vector<int64_t>;
  EXPECT_EQ(host_byte_size(PJRT_Buffer_Type_F32, Dims{}), 4u);
  EXPECT_EQ(host_byte_size(PJRT_Buffer_Type_F32, Dims{2, 3}), 24u);
  EXPECT_EQ(host_byte_size(PJRT_Buffer_Type_F64, Dims{0, 3}), 0u);
  EXPECT_EQ(host_byte_size(PJRT_Buffer_Type_S4, Dims{5}), 5u);
  EXPECT_THROW(host_byte_size(PJRT_Buffer_Type_F32, Dims{-1}), std::invalid_argument);
  EXPECT_THROW(host_byte_size(PJRT_Buffer_Type_F32, Dims{int64_t{1} << 40, int64_t{1} << 40}),
               std::invalid_argument);
}

class RoundTrip : public ::testing::TestWithParam<PJRT_Buffer_Type> {};

TEST_P(RoundTrip, KeepsEveryByte) {
  const PJRT_Buffer_Type type = GetParam();
  const std::vector<int64_t> dims = {3, 5};
  const size_t size = host_byte_size(type, dims);
  std::vector<unsigned char> bytes(size);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
  // Values that the type has: a byte that holds a narrow type has zeros above it.
  const unsigned mask = type == PJRT_Buffer_Type_PRED ? 1 : bits_of(type) < 8 ? 1 : 0xff;
  for (auto& byte : bytes) {
    byte &= static_cast<unsigned char>(mask);
  }
  const Buffer buffer = client().buffer_from_host(bytes.data(), type, dims, {}, device(),
                                                  HostBufferSemantics::ImmutableOnlyDuringCall);
  EXPECT_EQ(buffer.element_type(), type);
  ASSERT_EQ(buffer.to_host_size(), size);
  std::vector<unsigned char> back(size);
  buffer.to_host(back.data(), size).await();
  EXPECT_EQ(back, bytes);
}

INSTANTIATE_TEST_SUITE_P(
    Types, RoundTrip,
    ::testing::Values(PJRT_Buffer_Type_PRED, PJRT_Buffer_Type_S4, PJRT_Buffer_Type_S8,
                      PJRT_Buffer_Type_S16, PJRT_Buffer_Type_S32, PJRT_Buffer_Type_S64,
                      PJRT_Buffer_Type_U4, PJRT_Buffer_Type_U8, PJRT_Buffer_Type_U16,
                      PJRT_Buffer_Type_U32, PJRT_Buffer_Type_U64, PJRT_Buffer_Type_F16,
                      PJRT_Buffer_Type_F32, PJRT_Buffer_Type_F64, PJRT_Buffer_Type_BF16,
                      PJRT_Buffer_Type_C64, PJRT_Buffer_Type_C128, PJRT_Buffer_Type_F8E5M2,
                      PJRT_Buffer_Type_F8E4M3FN, PJRT_Buffer_Type_F8E4M3B11FNUZ,
                      PJRT_Buffer_Type_F8E5M2FNUZ, PJRT_Buffer_Type_F8E4M3FNUZ,
                      PJRT_Buffer_Type_F8E4M3, PJRT_Buffer_Type_F8E3M4, PJRT_Buffer_Type_F8E8M0FNU,
                      PJRT_Buffer_Type_F4E2M1FN),
    [](const auto& info) {
      std::string name = to_string(info.param);
      std::erase_if(name, [](char c) { return c == '<' || c == '>'; });
      return name;
    });

}  // namespace
}  // namespace torch_tpu::pjrt
