// Time as a parameter: everything that waits or measures takes a Clock&, so
// that tests can drive it with tests/fakes/fake_clock.h. Same shape as
// absl::Clock, which Debian 12's abseil lacks. absl::Now() appears nowhere
// else.
//
// Thread-safe.
#pragma once

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace stoker {

class Clock {
 public:
  virtual ~Clock() = default;

  virtual absl::Time Now() = 0;

  // Blocks until `condition` holds or `deadline` has passed; returns whether
  // the condition holds. `mu` is held on entry and on return, released while
  // waiting.
  virtual bool AwaitWithDeadline(absl::Mutex* mu,
                                 const absl::Condition& condition,
                                 absl::Time deadline)
      ABSL_SHARED_LOCKS_REQUIRED(mu) = 0;

  // The machine's clock: monotonic between adjustments of wall time. Never
  // null, lives for ever.
  static Clock& Real();
};

}  // namespace stoker
