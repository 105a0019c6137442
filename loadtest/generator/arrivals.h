// When the requests of an open loop are due, whatever the server does.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "loadtest/generator/random.h"

namespace stoker::loadtest {

class Arrivals {
 public:
  // One every 1/rate seconds; rate is above 0.
  static Arrivals Constant(double rate_per_second);
  // Independent of each other: gaps are exponential with mean 1/rate.
  static Arrivals Poisson(double rate_per_second, uint64_t seed);
  // As recorded: offsets from the start, ascending, in ns, not empty. `speed` 2
  // is twice as fast. After the last one it starts again, with the mean gap in
  // between.
  static Arrivals Recorded(std::vector<int64_t> offsets_ns, double speed);

  // The next due time, in ns from the start; never before the one before.
  int64_t NextNs();
  // Mean arrivals per second.
  double rate() const { return rate_; }

 private:
  enum class Kind { kConstant, kPoisson, kRecorded };
  Arrivals(Kind kind, double rate, uint64_t seed)
      : kind_(kind), rate_(rate), random_(seed) {}

  Kind kind_;
  double rate_;
  Random random_;
  int64_t count_ = 0;
  double time_ns_ = 0;  // kPoisson: the last arrival
  std::vector<int64_t> offsets_ns_;
  double speed_ = 1;
};

}  // namespace stoker::loadtest
