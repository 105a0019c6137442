#include "runner/int8_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

// One body for each instruction set; GCC's choose when the program starts.
// Clang's builds, which measure nothing, have one.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define STOKER_EACH_PROCESSOR \
  __attribute__((             \
      target_clones("arch=skylake-avx512", "arch=haswell", "default")))
#else
#define STOKER_EACH_PROCESSOR
#endif

namespace stoker {
namespace {

constexpr float kLeast = -128;
constexpr float kLargest = 127;
constexpr float kSteps = kLargest - kLeast;
// So small that what it divides is 0 for all purposes, and its inverse finite.
constexpr float kLeastScale = 1e-30F;

// 1.5 * 2^23: added to a number of a few bits, the sum's last bits are that
// number rounded to a whole one, in two's complement.
constexpr float kRounder = 12582912;

struct Extent {
  float least = 0;  // 0 is a whole number of steps from any
  float largest = 0;
  float poison = 0;  // NaN where a number is not finite
};

STOKER_EACH_PROCESSOR
void FindExtent(const float* x, const float* factors, size_t n,
                Extent& extent) {
  float least = 0;
  float largest = 0;
  float poison = 0;
#pragma omp simd reduction(min : least) reduction(max : largest) \
    reduction(+ : poison)
  for (size_t i = 0; i < n; ++i) {
    const float number = x[i] * factors[i];
    least = number < least ? number : least;
    largest = number > largest ? number : largest;
    poison += number * 0;
  }
  extent = {least, largest, poison};
}

// q = round(x * factor * inverse + zero), within [-128, 127].
STOKER_EACH_PROCESSOR
void Round(const float* x, const float* factors, size_t n, float inverse,
           float zero, int8_t* q) {
  const float shift = zero + kRounder;
#pragma omp simd
  for (size_t i = 0; i < n; ++i) {
    float sum = x[i] * factors[i] * inverse + shift;
    sum = sum > kRounder + kLeast ? sum : kRounder + kLeast;
    sum = sum < kRounder + kLargest ? sum : kRounder + kLargest;
    int32_t bits;
    std::memcpy(&bits, &sum, sizeof(bits));
    q[i] = static_cast<int8_t>(bits);
  }
}

STOKER_EACH_PROCESSOR
void Scale(float scale, float zero, const float* scales, const float* offsets,
           const float* bias, size_t n, char* products) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) {
    int32_t sum;
    std::memcpy(&sum, products + i * sizeof(sum), sizeof(sum));
    const float product =
        scale * (scales[i] * static_cast<float>(sum) - zero * offsets[i]) +
        bias[i];
    std::memcpy(products + i * sizeof(product), &product, sizeof(product));
  }
}

STOKER_EACH_PROCESSOR
void Enlarge(const float* x, size_t n, float* largest) {
#pragma omp simd
  for (size_t i = 0; i < n; ++i) {
    const float size = std::abs(x[i]);
    largest[i] = size > largest[i] ? size : largest[i];
  }
}

// Not finite where the numbers aren't.
float ScaleOf(float range, float steps, float poison) {
  const float scale = std::max(range / steps, kLeastScale);
  return std::isfinite(scale) && !std::isnan(poison)
             ? scale
             : std::numeric_limits<float>::quiet_NaN();
}

}  // namespace

Int8Row QuantiseRow(const float* x, const float* factors, size_t n, int8_t* q) {
  Extent extent;
  FindExtent(x, factors, n, extent);
  const float scale =
      ScaleOf(extent.largest - extent.least, kSteps, extent.poison);
  if (std::isnan(scale)) {
    std::fill_n(q, n, int8_t{0});
    return {scale, 0};
  }
  const float inverse = 1 / scale;
  const float zero = std::clamp(std::nearbyint(kLeast - extent.least * inverse),
                                kLeast, kLargest);
  Round(x, factors, n, inverse, zero, q);
  return {scale, zero};
}

Int8WeightRow QuantiseWeightRow(const float* w, const float* factors, size_t n,
                                int8_t* q) {
  Extent extent;
  FindExtent(w, factors, n, extent);
  const float scale =
      ScaleOf(std::max(extent.largest, -extent.least), kLargest, extent.poison);
  if (std::isnan(scale)) {
    std::fill_n(q, n, int8_t{0});
    return {scale, 0};
  }
  Round(w, factors, n, 1 / scale, 0, q);
  int64_t sum = 0;
  for (size_t i = 0; i < n; ++i) sum += q[i];
  return {scale, static_cast<float>(sum)};
}

void ScaleProducts(const Int8Row& row, const float* scales,
                   const float* offsets, const float* bias, size_t n,
                   void* products) {
  Scale(row.scale, row.zero, scales, offsets, bias, n,
        static_cast<char*>(products));
}

void NoteLargest(const float* x, size_t n, float* largest) {
  Enlarge(x, n, largest);
}

}  // namespace stoker
