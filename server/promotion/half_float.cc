#include "promotion/half_float.h"

#include <bit>

namespace stoker {
namespace {

constexpr uint32_t kFloatInfinity = 0x7f800000;

bool IsNan(uint32_t bits) { return (bits & 0x7fffffff) > kFloatInfinity; }

// `value` without its lowest `shift` bits, rounded to nearest, ties to even.
uint32_t RoundedShift(uint32_t value, int shift) {
  const uint32_t half = uint32_t{1} << (shift - 1);
  const uint32_t odd = value >> shift & 1;
  return (value + half - 1 + odd) >> shift;
}

}  // namespace

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0x1f) {
    return std::bit_cast<float>(sign | kFloatInfinity | fraction << 13);
  }
  if (exponent == 0) {  // zero and subnormal numbers: units of 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (IsNan(bits)) return sign | 0x7e00;
  if (magnitude >= 0x47800000) return sign | 0x7c00;  // 65536 and above
  const int exponent = static_cast<int>(magnitude >> 23);
  if (exponent < 102) return sign;  // below half of the smallest subnormal
  if (exponent < 113) {             // subnormal: units of 2^-24
    const uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    return static_cast<uint16_t>(sign |
                                 RoundedShift(significand, 126 - exponent));
  }
  // A carry out of the fraction runs into the exponent, which is what it
  // should.
  return static_cast<uint16_t>(
      sign | RoundedShift(magnitude - (uint32_t{112} << 23), 13));
}

float BfloatToFloat(uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat) << 16);
}

uint16_t FloatToBfloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (IsNan(bits)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>(RoundedShift(bits, 16));
}

}  // namespace stoker
