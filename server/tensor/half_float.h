// The two 16-bit floating-point formats, converted in software so that every
// host computes the same bits. Pure functions.
#pragma once

#include <cstdint>

namespace stoker {

// IEEE 754 binary16 (FP16).
float HalfToFloat(uint16_t half);
// To nearest, ties to even, in one step: by way of float would be two.
uint16_t RoundToHalf(double value);

// The upper half of an FP32 (BF16).
float BfloatToFloat(uint16_t bfloat);
uint16_t RoundToBfloat(double value);  // likewise

}  // namespace stoker
