#include "tensor/element.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace stoker {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <typename T>
T Encoded(double value, DataType dtype) {
  EXPECT_EQ(sizeof(T), DataTypeSize(dtype));
  const ElementBytes bytes = EncodeElement(value, dtype);
  T element;
  std::memcpy(&element, bytes.data(), sizeof(T));
  return element;
}

uint16_t Half(double value) {
  return Encoded<uint16_t>(value, DataType::kFp16);
}
uint16_t Brain(double value) {
  return Encoded<uint16_t>(value, DataType::kBf16);
}

// The number that 16 bits with this many mantissa bits stand for.
double Decoded(uint16_t bits, int mantissa_bits) {
  const int exponent_bits = 15 - mantissa_bits;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = (bits & 0x7fff) >> mantissa_bits;
  const int mantissa = bits & ((1 << mantissa_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 0) {
    return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits);
  }
  return sign * std::ldexp((1 << mantissa_bits) + mantissa,
                           exponent - bias - mantissa_bits);
}

TEST(EncodeElement, IntegersTruncateAndSaturate) {
  EXPECT_EQ(Encoded<int8_t>(-128, DataType::kInt8), -128);
  EXPECT_EQ(Encoded<int8_t>(-1000, DataType::kInt8), -128);
  EXPECT_EQ(Encoded<int8_t>(1.9, DataType::kInt8), 1);
  EXPECT_EQ(Encoded<int16_t>(40000, DataType::kInt16), 32767);
  EXPECT_EQ(Encoded<int32_t>(-7.9, DataType::kInt32), -7);
  EXPECT_EQ(Encoded<int64_t>(9007199254740992.0, DataType::kInt64),
            9007199254740992);
  EXPECT_EQ(Encoded<int64_t>(1e30, DataType::kInt64),
            std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Encoded<int64_t>(-kInf, DataType::kInt64),
            std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Encoded<int64_t>(kNan, DataType::kInt64), 0);
  EXPECT_EQ(Encoded<uint8_t>(-1, DataType::kUint8), 0);
  EXPECT_EQ(Encoded<uint8_t>(255, DataType::kUint8), 255);
  EXPECT_EQ(Encoded<uint16_t>(65535, DataType::kUint16), 65535);
  EXPECT_EQ(Encoded<uint32_t>(4294967295.0, DataType::kUint32), 4294967295u);
  EXPECT_EQ(Encoded<uint64_t>(kInf, DataType::kUint64),
            std::numeric_limits<uint64_t>::max());
}

TEST(EncodeElement, BoolIsOneByteOfZeroOrOne) {
  EXPECT_EQ(Encoded<uint8_t>(0, DataType::kBool), 0);
  EXPECT_EQ(Encoded<uint8_t>(0.25, DataType::kBool), 1);
  EXPECT_EQ(Encoded<uint8_t>(-3, DataType::kBool), 1);
}

TEST(EncodeElement, SingleAndDouble) {
  EXPECT_EQ(Encoded<float>(0.1, DataType::kFp32), 0.1f);
  EXPECT_EQ(Encoded<float>(-kInf, DataType::kFp32), -kInf);
  EXPECT_EQ(Encoded<double>(0.1, DataType::kFp64), 0.1);
}

TEST(EncodeElement, KnownHalves) {
  EXPECT_EQ(Half(0), 0x0000);
  EXPECT_EQ(Half(-0.0), 0x8000);
  EXPECT_EQ(Half(1), 0x3c00);
  EXPECT_EQ(Half(-2), 0xc000);
  EXPECT_EQ(Half(65504), 0x7bff);
  EXPECT_EQ(Half(65519.99), 0x7bff);
  EXPECT_EQ(Half(65520), 0x7c00);
  EXPECT_EQ(Half(1e300), 0x7c00);
  EXPECT_EQ(Half(-kInf), 0xfc00);
  EXPECT_EQ(Half(kNan) & 0x7fff, 0x7e00);
  EXPECT_EQ(Half(std::ldexp(1, -24)), 0x0001);
  EXPECT_EQ(Half(std::ldexp(1, -25)), 0x0000);    // a tie, to even
  EXPECT_EQ(Half(std::ldexp(1.1, -25)), 0x0001);  // past the tie
  EXPECT_EQ(Half(std::ldexp(-1, -1074)), 0x8000);
  // Above a tie by less than a float can tell: through float it would be
  // 0x3c00.
  EXPECT_EQ(Half(1 + std::ldexp(1, -11) + std::ldexp(1, -40)), 0x3c01);
}

TEST(EncodeElement, KnownBrainFloats) {
  EXPECT_EQ(Brain(1), 0x3f80);
  EXPECT_EQ(Brain(-10000), 0xc61c);
  EXPECT_EQ(Brain(3.4e38), 0x7f80);
  EXPECT_EQ(Brain(kInf), 0x7f80);
  EXPECT_EQ(Brain(kNan) & 0x7fff, 0x7fc0);
  EXPECT_EQ(Brain(1 + std::ldexp(1, -8)), 0x3f80);      // a tie, to even
  EXPECT_EQ(Brain(1 + 3 * std::ldexp(1, -8)), 0x3f82);  // a tie, to even
}

TEST(EncodeElement, AllSixteenBitNumbersAndTheTiesBetweenThem) {
  for (const auto& [dtype, mantissa_bits, infinity] :
       {std::tuple{DataType::kFp16, 10, 0x7c00},
        std::tuple{DataType::kBf16, 7, 0x7f80}}) {
    for (int bits = 0; bits < infinity; ++bits) {
      const double value = Decoded(static_cast<uint16_t>(bits), mantissa_bits);
      ASSERT_EQ(Encoded<uint16_t>(value, dtype), bits);
      ASSERT_EQ(Encoded<uint16_t>(-value, dtype), bits | 0x8000);
      const double next =
          Decoded(static_cast<uint16_t>(bits + 1), mantissa_bits);
      const double tie = value + (next - value) / 2;
      ASSERT_EQ(Encoded<uint16_t>(tie, dtype), bits + (bits & 1)) << value;
      ASSERT_EQ(Encoded<uint16_t>(std::nextafter(tie, 0), dtype), bits);
      ASSERT_EQ(Encoded<uint16_t>(std::nextafter(tie, kInf), dtype), bits + 1);
    }
  }
}

TEST(FillElements, RepeatsTheElementAndNothingMore) {
  for (int64_t count = 0; count < 70; ++count) {
    std::vector<int32_t> out(static_cast<size_t>(count) + 1, 77);
    FillElements(reinterpret_cast<std::byte*>(out.data()), count, 4,
                 EncodeElement(-5, DataType::kInt32));
    std::vector<int32_t> expected(static_cast<size_t>(count), -5);
    expected.push_back(77);
    ASSERT_EQ(out, expected);
  }
}

}  // namespace
}  // namespace stoker
