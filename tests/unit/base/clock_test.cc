#include "base/clock.h"

#include "base/thread.h"
#include "gtest/gtest.h"

namespace stoker {
namespace {

TEST(RealClockTest, MovesForward) {
  const absl::Time before = Clock::Real().Now();
  EXPECT_GT(before, absl::FromUnixSeconds(1'600'000'000));
  EXPECT_LE(before, Clock::Real().Now());
}

TEST(RealClockTest, ReturnsFalseAtTheDeadline) {
  absl::Mutex mu;
  const bool done = false;
  absl::MutexLock lock(&mu);
  const absl::Time deadline = Clock::Real().Now() + absl::Milliseconds(1);
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
                                              absl::InfiniteFuture()));
}

}  // namespace
}  // namespace stoker
