// gRPC's deadlines as durations, and back. grpc::TimePoint and the deadline()
// of a context would go by way of the time of day, where a step between two
// looks at it is taken for time that has passed.
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

// What is left until `time`, on whatever clock gRPC keeps it.
inline absl::Duration GrpcTimeLeft(gpr_timespec time) {
  if (gpr_time_cmp(time, gpr_inf_future(time.clock_type)) == 0) {
    return absl::InfiniteDuration();
  }
  const gpr_timespec left = gpr_time_sub(time, gpr_now(time.clock_type));
  return absl::Seconds(left.tv_sec) + absl::Nanoseconds(left.tv_nsec);
}

}  // namespace stoker
