// Gives memory that malloc keeps in reserve back to the system. malloc is told
// to keep much of it, because runs of models take and free the same large
// blocks again and again; what a burst of requests has left behind is needed by
// nobody.
//
// Not thread-safe: used by one thread; TrimNow by any.
#pragma once

#include <cstddef>
#include <limits>

#include "absl/time/time.h"
#include "base/monotonic_time.h"

namespace stoker {

class HeapTrimmer {
 public:
  // What stayed free all this time is not needed.
  static constexpr absl::Duration kPeriod = absl::Seconds(15);
  // Less is not worth the page faults.
  static constexpr size_t kWorthwhileBytes = size_t{64} << 20;

  // To be called every few seconds: trims the heap when it is worthwhile.
  void Look(MonotonicTime now);

  // At once, where so much is free now that it is worthwhile: of what was let
  // go and won't be taken again, such as a version that rests.
  static void TrimNow();

  // Whether to trim, with so many bytes free at the moment.
  bool Decide(size_t free_bytes, MonotonicTime now);

 private:
  MonotonicTime since_ = MonotonicTime::InfinitePast();  // of `least_`
  size_t least_ = std::numeric_limits<size_t>::max();
};

}  // namespace stoker
