// So much at once, and so much more per second.
//
// Not thread-safe.
#pragma once

#include <algorithm>

#include "base/monotonic_time.h"

namespace stoker {

class TokenBucket {
 public:
  TokenBucket(double size, double per_second)
      : size_(size), per_second_(per_second), tokens_(size) {}

  // False: there are not as many left; then none is taken.
  bool Take(MonotonicTime now, double tokens = 1) {
    const double seconds = absl::ToDoubleSeconds(now - filled_);
    filled_ = now;
    Earn(seconds * per_second_);
    if (tokens_ < tokens) return false;
    tokens_ -= tokens;
    return true;
  }
  // Until there is one again, after a Take of one that found none.
  absl::Duration Wait() const {
    return absl::Seconds(std::max(0.0, 1 - tokens_) / per_second_);
  }
  void Earn(double tokens) { tokens_ = std::min(size_, tokens_ + tokens); }

 private:
  const double size_;
  const double per_second_;
  double tokens_;
  MonotonicTime filled_;
};

}  // namespace stoker
