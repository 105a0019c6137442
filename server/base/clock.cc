#include "base/clock.h"

#include "absl/time/clock.h"

namespace stoker {
namespace {

class RealClock : public Clock {
 public:
  absl::Time Now() override { return absl::Now(); }

  bool AwaitWithDeadline(absl::Mutex* mu, const absl::Condition& condition,
                         absl::Time deadline) override {
    return mu->AwaitWithDeadline(condition, deadline);
  }
};

}  // namespace

Clock& Clock::Real() {
  // Leaked on purpose: threads may read the time while statics are destroyed.
  static Clock& clock = *new RealClock;
  return clock;
}

}  // namespace stoker
