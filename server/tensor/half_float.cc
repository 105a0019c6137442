#include "tensor/half_float.h"

#include <algorithm>
#include <bit>

namespace stoker {
namespace {

constexpr uint32_t kFloatInfinity = 0x7f800000;

// Bits of the 16-bit floating-point number nearest to `value`, ties to even.
uint16_t RoundTo16Bits(double value, int exponent_bits, int mantissa_bits) {
  const uint64_t bits = std::bit_cast<uint64_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 63) << 15);
  const int exponent = static_cast<int>((bits >> 52) & 0x7ff);
  const uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  const uint64_t infinity = ((uint64_t{1} << exponent_bits) - 1)
                            << mantissa_bits;
  if (exponent == 0x7ff) {
    const uint64_t quiet =
        mantissa == 0 ? 0 : uint64_t{1} << (mantissa_bits - 1);
    return static_cast<uint16_t>(sign | infinity | quiet);
  }
  if (exponent == 0) return sign;  // zero, or far below the smallest number

  const uint64_t significand = mantissa | (uint64_t{1} << 52);
  const int biased = exponent - 1023 + (1 << (exponent_bits - 1)) - 1;
  const int shift = 52 - mantissa_bits + (biased > 0 ? 0 : 1 - biased);
  if (shift > 53) return sign;
  uint64_t rounded = significand >> shift;
  const uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
  const uint64_t half = uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (rounded & 1) != 0)) ++rounded;
  // The leading one of a normal number adds 1 to the exponent field, as does a
  // carry out of the rounding.
  if (biased > 0) rounded += static_cast<uint64_t>(biased - 1) << mantissa_bits;
  return static_cast<uint16_t>(sign | std::min(rounded, infinity));
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

uint16_t RoundToHalf(double value) { return RoundTo16Bits(value, 5, 10); }

float BfloatToFloat(uint16_t bfloat) {
  return std::bit_cast<float>(static_cast<uint32_t>(bfloat) << 16);
}

uint16_t RoundToBfloat(double value) { return RoundTo16Bits(value, 8, 7); }

}  // namespace stoker
