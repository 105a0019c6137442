// Deadlines for gRPC's clients. grpc::TimePoint would go by way of the time of
// day, where a step between two looks at it is taken for time that has passed.
//
// Thread-safe. Private to this room.
#pragma once

#include <grpc/support/time.h>

#include <algorithm>

#include "absl/time/time.h"

namespace stoker {

// At once for a negative delay, never for an infinite one.
inline gpr_timespec GrpcTimeAfter(absl::Duration delay) {
  if (delay == absl::InfiniteDuration()) {
    return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  }
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(absl::ToInt64Nanoseconds(std::max(
                                              delay, absl::ZeroDuration())),
                                          GPR_TIMESPAN));
}

}  // namespace stoker
