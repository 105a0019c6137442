#include "base/clock.h"

#include "base/thread.h"
#include "gtest/gtest.h"

namespace stoker {
namespace {

TEST(RealClockTest, MovesForward) {
  const MonotonicTime before = Clock::Real().Now();
  EXPECT_LE(before, Clock::Real().Now());
  EXPECT_GT(before, MonotonicTime());
}

TEST(RealClockTest, KnowsWhatDayItIs) {
  EXPECT_GT(Clock::Real().WallNow(), absl::FromUnixSeconds(1'600'000'000));
}

TEST(RealClockTest, ReturnsFalseAtTheDeadline) {
  absl::Mutex mu;
  const bool done = false;
  absl::MutexLock lock(&mu);
  const MonotonicTime deadline = Clock::Real().Now() + absl::Milliseconds(1);
  EXPECT_FALSE(
      Clock::Real().AwaitWithDeadline(&mu, absl::Condition(&done), deadline));
  EXPECT_GE(Clock::Real().Now(), deadline);
}

TEST(RealClockTest, ReturnsTrueWhenTheConditionComesTrue) {
  absl::Mutex mu;
  bool done = false;
  Thread setter("setter", [&] {
    absl::MutexLock lock(&mu);
    done = true;
  });
  absl::MutexLock lock(&mu);
  EXPECT_TRUE(Clock::Real().AwaitWithDeadline(&mu, absl::Condition(&done),
                                              MonotonicTime::InfiniteFuture()));
}

}  // namespace
}  // namespace stoker
