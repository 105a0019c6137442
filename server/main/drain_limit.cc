#include "main/drain_limit.h"

#include <unistd.h>

#include <cstdio>

#include "base/log.h"

namespace stoker {

DrainLimit::DrainLimit(Clock& clock, MonotonicTime when)
    : clock_(clock), thread_("drain-limit", [this, when] { Watch(when); }) {}

DrainLimit::~DrainLimit() {
  const absl::MutexLock lock(&mu_);
  over_ = true;
}

void DrainLimit::Watch(MonotonicTime when) {
  const absl::MutexLock lock(&mu_);
  if (clock_.AwaitWithDeadline(&mu_, absl::Condition(&over_), when)) return;
  log::Warn(
      "stopped in the middle of a run, which can't be interrupted and has not "
      "ended within --drain-seconds");
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace stoker
