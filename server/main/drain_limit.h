// The end of a process that drains.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/monotonic_time.h"
#include "base/thread.h"

namespace stoker {

// Ends the process, with exit code 0 and a line in the log, where this object
// is still there at `when`: a run can't be interrupted, and may take hours.
// By then its clients have been told.
class DrainLimit {
 public:
  // The clock outlives this object.
  DrainLimit(Clock& clock, MonotonicTime when);
  ~DrainLimit();

 private:
  void Watch(MonotonicTime when) ABSL_LOCKS_EXCLUDED(mu_);

  Clock& clock_;
  absl::Mutex mu_;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace stoker
