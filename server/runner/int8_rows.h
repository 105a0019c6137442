// Rows of numbers as eight-bit integers, and products of such rows as numbers
// again. Private to this room.
//
// A row of activations has a scale and a zero point of its own, found from its
// least and its largest number when it is seen: x * factor is about scale * (q
// - zero). What one row holds changes nothing of another. A row of a weight has
// a scale alone. Both as in "LLM.int8()" (Dettmers et al., 2022), its
// vector-wise quantisation, with zero points.
//
// Pure; compiled for several instruction sets, of which the processor's best
// runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace stoker {

struct Int8Row {
  float scale = 1;
  float zero = 0;  // a whole number from -128 to 127
};

// Of `n` numbers, each times that of `factors`. Where one is NaN or infinite,
// the scale is NaN, and with it all that ScaleProducts makes of the row.
Int8Row QuantiseRow(const float* x, const float* factors, size_t n, int8_t* q);

struct Int8WeightRow {
  float scale = 1;
  float sum = 0;  // of the integers
};

// Likewise, the largest magnitude as 127.
Int8WeightRow QuantiseWeightRow(const float* w, const float* factors, size_t n,
                                int8_t* q);

// In place, of `n` sums of products of one row of activations with rows of a
// weight: INT32 in, FP32 out. `scales` and `offsets`: of each weight's row its
// scale, and that times its sum; `bias` is added.
void ScaleProducts(const Int8Row& row, const float* scales,
                   const float* offsets, const float* bias, size_t n,
                   void* products);

// Each of `largest` becomes the magnitude of x's number where that is larger.
void NoteLargest(const float* x, size_t n, float* largest);

}  // namespace stoker
