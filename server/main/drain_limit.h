// The end of a process that drains.
#pragma once

#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "base/monotonic_time.h"
#include "base/thread.h"

namespace stoker {

// Ends the process, with a line in the log, where this object is still there
// at `when`: a run can't be interrupted, and may take hours. By then its
// clients have been told.
class DrainLimit {
 public:
  // The exit code is asked for at `when`, on a thread of this object's. The
  // clock outlives this object.
  DrainLimit(Clock& clock, MonotonicTime when, std::function<int()> exit_code);
  ~DrainLimit();

 private:
  void Watch(MonotonicTime when) ABSL_LOCKS_EXCLUDED(mu_);

  Clock& clock_;
  const std::function<int()> exit_code_;
  absl::Mutex mu_;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  Thread thread_;
};

}  // namespace stoker
