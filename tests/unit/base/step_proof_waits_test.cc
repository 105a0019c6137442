#include "base/step_proof_waits.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/thread.h"

extern "C" void SteppingClockSetAhead(int64_t ns);  // of stepping_clock.c

namespace stoker {
namespace {

void SetAhead(absl::Duration ahead) {
  SteppingClockSetAhead(absl::ToInt64Nanoseconds(ahead));
}

// A thread that waits for what doesn't come true, until a deadline. When the
// constructor returns, its mutex has chosen the time of day to wake up at.
class Waiting {
 public:
  explicit Waiting(absl::Duration limit)
      : deadline_(Clock::Real().Now() + limit), thread_("waiter", [this] {
          absl::MutexLock lock(&mu_);
          begun_.Notify();
          came_true_ = Clock::Real().AwaitWithDeadline(
              &mu_, absl::Condition(&done_), deadline_);
          ended_ = Clock::Real().Now();
        }) {
    begun_.WaitForNotification();
    absl::MutexLock lock(&mu_);  // so the thread waits
  }

  void SetDone() {
    absl::MutexLock lock(&mu_);
    done_ = true;
  }
  bool Join() {
    thread_.Join();
    return came_true_;
  }
  absl::Duration late() const { return ended_ - deadline_; }

 private:
  const MonotonicTime deadline_;
  absl::Notification begun_;
  absl::Mutex mu_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  bool came_true_ = false;
  MonotonicTime ended_;
  Thread thread_;
};

class StepProofWaitsTest : public ::testing::Test {
 protected:
  ~StepProofWaitsTest() override { SetAhead(absl::ZeroDuration()); }
};

TEST_F(StepProofWaitsTest, TheTestMovesTheTimeOfDayAlone) {
  const MonotonicTime before = Clock::Real().Now();
  const absl::Time wall = Clock::Real().WallNow();
  SetAhead(absl::Hours(3));
  EXPECT_GE(Clock::Real().WallNow() - wall, absl::Hours(3));
  EXPECT_LT(Clock::Real().Now() - before, absl::Hours(1));
}

TEST_F(StepProofWaitsTest, AStepForwardEndsNoWait) {
  Waiting waiting(absl::Milliseconds(200));
  SetAhead(absl::Hours(1));
  EXPECT_FALSE(waiting.Join());
  EXPECT_GE(waiting.late(), absl::ZeroDuration());
}

TEST_F(StepProofWaitsTest, AStepBackProlongsNoWait) {
  Waiting waiting(absl::Milliseconds(200));
  SetAhead(-absl::Hours(1));
  EXPECT_FALSE(waiting.Join());
  EXPECT_GE(waiting.late(), absl::ZeroDuration());
  EXPECT_LT(waiting.late(), absl::Minutes(1));
}

TEST_F(StepProofWaitsTest, ManyStepsAndManyWaiters) {
  for (int round = 0; round < 5; ++round) {
    Waiting a(absl::Milliseconds(40));
    Waiting b(absl::Milliseconds(60));
    Waiting c(absl::Hours(10));
    SetAhead(absl::Hours(round));
    Waiting d(absl::Milliseconds(30));
    SetAhead(-absl::Hours(round));
    EXPECT_FALSE(a.Join());
    EXPECT_FALSE(b.Join());
    EXPECT_FALSE(d.Join());
    c.SetDone();
    EXPECT_TRUE(c.Join());
  }
}

TEST(StepProofWaitsUnderSteps, ConditionAndStepMayRace) {
  // Never destroyed, as its header says.
  static StepProofWaits& waits = *new StepProofWaits;
  for (int round = 0; round < 300; ++round) {
    absl::Mutex mu;
    bool done = false;
    Thread waiter("waiter", [&] {
      absl::MutexLock lock(&mu);
      EXPECT_TRUE(waits.Await(&mu, absl::Condition(&done),
                              StepProofWaits::Now() + absl::Hours(1)));
    });
    Thread stepper("stepper", [&] { waits.BeginAgain(); });
    {
      absl::MutexLock lock(&mu);
      done = true;
    }
    waiter.Join();
    stepper.Join();
  }
}

}  // namespace
}  // namespace stoker
