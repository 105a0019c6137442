// The two 16-bit floating-point formats, converted in software so that every
// host computes the same bits. Private to this room. Pure functions.
#pragma once

#include <cstdint>

namespace stoker {

// IEEE 754 binary16 (FP16).
float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);  // rounds to nearest, ties to even

// The upper half of an FP32 (BF16).
float BfloatToFloat(uint16_t bfloat);
uint16_t FloatToBfloat(float value);  // rounds to nearest, ties to even

}  // namespace stoker
