#include "loadtest/generator/random.h"

#include <cmath>
#include <numbers>

namespace stoker::loadtest {

double Random::Unit() { return static_cast<double>(bits_() >> 11) * 0x1p-53; }

int64_t Random::Integer(int64_t min, int64_t max) {
  const uint64_t span =
      static_cast<uint64_t>(max) - static_cast<uint64_t>(min) + 1;
  if (span == 0) return static_cast<int64_t>(bits_());  // all 2^64 values
  // Draws above the last whole multiple of `span` would favour low values.
  const uint64_t uneven = (UINT64_MAX % span + 1) % span;
  uint64_t drawn = bits_();
  while (drawn > UINT64_MAX - uneven) drawn = bits_();
  return static_cast<int64_t>(static_cast<uint64_t>(min) + drawn % span);
}

double Random::Normal() {
  // Box and Muller, Ann. Math. Statist. 29 (1958), 610; 1 - Unit() is never 0.
  const double radius = std::sqrt(-2 * std::log(1 - Unit()));
  return radius * std::cos(2 * std::numbers::pi * Unit());
}

double Random::Exponential() { return -std::log(1 - Unit()); }

}  // namespace stoker::loadtest
