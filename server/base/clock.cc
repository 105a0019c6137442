#include "base/clock.h"

#include <chrono>

#include "absl/time/time.h"
#include "base/step_proof_waits.h"

namespace stoker {
namespace {

class RealClock : public Clock {
 public:
  MonotonicTime Now() override { return StepProofWaits::Now(); }
  // absl::Now reckons on from its last look at the machine's clock, and sees a
  // step two seconds late.
  absl::Time WallNow() override {
    return absl::FromChrono(std::chrono::system_clock::now());
  }

  bool AwaitWithDeadline(absl::Mutex* mu, const absl::Condition& condition,
                         MonotonicTime deadline) override
      ABSL_SHARED_LOCKS_REQUIRED(mu) {
    return waits_.Await(mu, condition, deadline);
  }

 private:
  StepProofWaits waits_;
};

}  // namespace

Clock& Clock::Real() {
  // Leaked on purpose: threads may read the time while statics are destroyed.
  static Clock& clock = *new RealClock;
  return clock;
}

}  // namespace stoker
