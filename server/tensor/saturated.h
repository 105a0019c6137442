// A number as an integer type that may not hold it. A pure function.
#pragma once

#include <cmath>
#include <limits>

namespace stoker {

// `value` without its fraction, held inside what T can say; NaN becomes 0.
template <typename T>
T Saturated(double value) {
  using Limits = std::numeric_limits<T>;
  if (std::isnan(value)) return 0;
  // max() may round up to a power of two as a double, hence >=.
  if (value >= static_cast<double>(Limits::max())) return Limits::max();
  if (value <= static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<T>(value);
}

}  // namespace stoker
