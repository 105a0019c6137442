// Time as a parameter: everything that waits or measures takes a Clock&, so
// that tests can drive it with tests/fakes/fake_clock.h.
//
// There are two clocks in it. Durations, deadlines and waits go by Now(), which
// nobody can set. The time of day, which an administrator or NTP may step by
// any amount in either direction, is WallNow(): for people, for files and for
// other machines, and never for how long something took. Their types differ, so
// that a mixture doesn't compile.
//
// Thread-safe.
#pragma once

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"

namespace stoker {

class Clock {
 public:
  virtual ~Clock() = default;

  virtual MonotonicTime Now() = 0;
  virtual absl::Time WallNow() = 0;

  // Blocks until `condition` holds or `deadline` has passed; returns whether
  // the condition holds. `mu` is held on entry and on return, released while
  // waiting.
  virtual bool AwaitWithDeadline(absl::Mutex* mu,
                                 const absl::Condition& condition,
                                 MonotonicTime deadline)
      ABSL_SHARED_LOCKS_REQUIRED(mu) = 0;

  // The machine's clocks. Lives for ever.
  static Clock& Real();
};

}  // namespace stoker
