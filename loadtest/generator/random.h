// Seeded random numbers that are the same with every compiler: the standard
// fixes its generators, but not its distributions.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <random>

namespace stoker::loadtest {

class Random {
 public:
  explicit Random(uint64_t seed) : bits_(seed) {}

  uint64_t Bits() { return bits_(); }
  // [0, 1), 53 random bits.
  double Unit();
  // [min, max], each with the same chance; min <= max.
  int64_t Integer(int64_t min, int64_t max);
  // Mean 0, standard deviation 1.
  double Normal();
  // Mean 1.
  double Exponential();

 private:
  std::mt19937_64 bits_;
};

}  // namespace stoker::loadtest
