#include "batching/expiry_timer.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

class ExpiryTimerTest : public ::testing::Test {
 protected:
  void SetUp() override { timer_.Start("due-test"); }
  void TearDown() override { timer_.Stop(); }

  MonotonicTime After(int seconds) const {
    return start_ + absl::Seconds(seconds);
  }
  // Returns when it was asked `times` times.
  void AwaitCalls(size_t times) {
    absl::MutexLock lock(&mu_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return calls_.size() >= times;
    };
    ASSERT_TRUE(
        mu_.AwaitWithTimeout(absl::Condition(&enough), absl::Seconds(30)));
  }
  std::vector<MonotonicTime> calls() {
    absl::MutexLock lock(&mu_);
    return calls_;
  }

  FakeClock clock_;
  const MonotonicTime start_ = clock_.Now();
  absl::Mutex mu_;
  std::vector<MonotonicTime> calls_ ABSL_GUARDED_BY(mu_);
  MonotonicTime next_ ABSL_GUARDED_BY(mu_) = MonotonicTime::InfiniteFuture();
  ExpiryTimer timer_{clock_, [this](MonotonicTime now) {
                       absl::MutexLock lock(&mu_);
                       calls_.push_back(now);
                       return next_;
                     }};
};

TEST_F(ExpiryTimerTest, WakesAtTheEarliestTimeThatItWasTold) {
  timer_.WakeBy(MonotonicTime::InfiniteFuture());
  timer_.WakeBy(After(20));
  timer_.WakeBy(After(10));
  timer_.WakeBy(After(30));
  clock_.BlockUntilWaiters(1);
  clock_.Advance(absl::Seconds(10));
  AwaitCalls(1);
  EXPECT_EQ(calls(), std::vector<MonotonicTime>{After(10)});
}

TEST_F(ExpiryTimerTest, GoesOnAtWhatIsDueNext) {
  {
    absl::MutexLock lock(&mu_);
    next_ = After(25);
  }
  timer_.WakeBy(After(10));
  clock_.BlockUntilWaiters(1);
  clock_.Advance(absl::Seconds(10));
  AwaitCalls(1);
  // Never later than what comes meanwhile.
  timer_.WakeBy(After(15));
  clock_.BlockUntilWaiters(1);
  clock_.Advance(absl::Seconds(5));
  AwaitCalls(2);
  {
    absl::MutexLock lock(&mu_);
    next_ = MonotonicTime::InfiniteFuture();
  }
  clock_.BlockUntilWaiters(1);
  clock_.Advance(absl::Seconds(10));
  AwaitCalls(3);
  EXPECT_EQ(calls(),
            (std::vector<MonotonicTime>{After(10), After(15), After(25)}));
}

}  // namespace
}  // namespace stoker
