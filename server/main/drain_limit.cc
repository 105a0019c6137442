#include "main/drain_limit.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/log.h"

namespace stoker {

DrainLimit::DrainLimit(Clock& clock, MonotonicTime when,
                       std::function<int()> exit_code)
    : clock_(clock),
      exit_code_(std::move(exit_code)),
      thread_("drain-limit", [this, when] { Watch(when); }) {}

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
  _exit(exit_code_());
}

}  // namespace stoker
