// What a task ends with that waited in its queue for too long. It has the code
// of one whose version stopped; who counts them has to tell them apart.
//
// Thread-safe: functions.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/cord.h"

namespace stoker {

inline constexpr char kQueueTimeoutMark[] = "stoker.queue_timeout";

// UNAVAILABLE, with the text that Triton's clients know.
inline absl::Status QueueTimeoutError() {
  absl::Status status = absl::UnavailableError("Request timeout expired");
  status.SetPayload(kQueueTimeoutMark, absl::Cord());
  return status;
}
inline bool IsQueueTimeout(const absl::Status& status) {
  return status.GetPayload(kQueueTimeoutMark).has_value();
}

}  // namespace stoker
