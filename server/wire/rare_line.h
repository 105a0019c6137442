// Lets one line of the log through, and then none of its kind for a while: what
// peers do must not fill the log.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"
#include "base/monotonic_time.h"

namespace stoker {

class RareLine {
 public:
  static constexpr absl::Duration kBetween = absl::Seconds(10);

  // Who is told so has to write it.
  bool IsDue(MonotonicTime now) {
    int64_t until = quiet_until_.load(std::memory_order_relaxed);
    if (until != 0 && now.ToNanoseconds() < until) return false;
    return quiet_until_.compare_exchange_strong(
        until, (now + kBetween).ToNanoseconds());
  }

 private:
  std::atomic<int64_t> quiet_until_ = 0;  // 0: nothing was said yet
};

}  // namespace stoker
