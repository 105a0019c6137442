// Which loads that failed are tried again, and when. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace stoker {

// After a load that failed for want of memory, say; doubled with each in a row.
inline constexpr absl::Duration kMinLoadBackoff = absl::Seconds(1);
inline constexpr absl::Duration kMaxLoadBackoff = absl::Minutes(1);

// Whether what a load failed for may be otherwise in a while, with the same
// files.
inline bool MayPass(const absl::Status& failure) {
  return absl::IsResourceExhausted(failure) || absl::IsUnavailable(failure) ||
         absl::IsDeadlineExceeded(failure) || absl::IsAborted(failure);
}

inline absl::Duration LoadBackoff(int failed_before) {
  absl::Duration backoff = kMinLoadBackoff;
  for (int i = 0; i < failed_before && backoff < kMaxLoadBackoff; ++i) {
    backoff *= 2;
  }
  return backoff < kMaxLoadBackoff ? backoff : kMaxLoadBackoff;
}

}  // namespace stoker
