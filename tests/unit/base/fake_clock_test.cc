#include "tests/fakes/fake_clock.h"

#include <atomic>
#include <memory>
#include <vector>

#include "base/thread.h"
#include "gtest/gtest.h"

namespace stoker {
namespace {

TEST(FakeClockTest, MovesOnlyWhenToldTo) {
  FakeClock clock(absl::FromUnixSeconds(100));
  const MonotonicTime start = clock.Now();
  EXPECT_EQ(clock.Now() - start, absl::ZeroDuration());
  clock.Advance(absl::Milliseconds(250));
  EXPECT_EQ(clock.Now() - start, absl::Milliseconds(250));
  EXPECT_EQ(clock.WallNow(), absl::FromUnixMillis(100'250));
}

TEST(FakeClockTest, AStepMovesTheTimeOfDayAlone) {
  FakeClock clock(absl::FromUnixSeconds(100));
  const MonotonicTime start = clock.Now();
  clock.StepWall(absl::Hours(1));
  clock.StepWall(-absl::Seconds(40));
  EXPECT_EQ(clock.WallNow(), absl::FromUnixSeconds(3660));
  EXPECT_EQ(clock.Now(), start);
}

TEST(FakeClockTest, DoesNotWaitWhenTheConditionHolds) {
  FakeClock clock;
  absl::Mutex mu;
  const bool done = true;
  absl::MutexLock lock(&mu);
  EXPECT_TRUE(clock.AwaitWithDeadline(&mu, absl::Condition(&done),
                                      MonotonicTime::InfiniteFuture()));
}

TEST(FakeClockTest, DoesNotWaitWhenTheDeadlineHasPassed) {
  FakeClock clock;
  absl::Mutex mu;
  const bool done = false;
  absl::MutexLock lock(&mu);
  EXPECT_FALSE(
      clock.AwaitWithDeadline(&mu, absl::Condition(&done), clock.Now()));
}

// One thread that waits for `done` with a deadline and says how that ended.
class WaitingThread {
 public:
  WaitingThread(FakeClock& clock, absl::Duration timeout)
      : thread_("waiter", [this, &clock, deadline = clock.Now() + timeout] {
          absl::MutexLock lock(&mu_);
          const bool held =
              clock.AwaitWithDeadline(&mu_, absl::Condition(&done_), deadline);
          result_ = held ? 1 : 0;
        }) {}

  void SetDone() {
    absl::MutexLock lock(&mu_);
    done_ = true;
  }
  bool has_ended() const { return result_ >= 0; }
  bool Result() {
    thread_.Join();
    return result_ == 1;
  }

 private:
  absl::Mutex mu_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  std::atomic<int> result_ = -1;
  Thread thread_;
};

TEST(FakeClockTest, WakesWhenTheConditionComesTrue) {
  FakeClock clock;
  WaitingThread waiting(clock, absl::Seconds(1));
  clock.BlockUntilWaiters(1);
  waiting.SetDone();
  EXPECT_TRUE(waiting.Result());
}

TEST(FakeClockTest, WakesAtTheDeadlineAndNotBefore) {
  FakeClock clock;
  WaitingThread early(clock, absl::Milliseconds(5));
  WaitingThread late(clock, absl::Milliseconds(6));
  clock.BlockUntilWaiters(2);
  clock.Advance(absl::Milliseconds(5) - absl::Nanoseconds(1));
  clock.BlockUntilWaiters(2);
  EXPECT_FALSE(early.has_ended());
  clock.Advance(absl::Nanoseconds(1));
  EXPECT_FALSE(early.Result());
  clock.BlockUntilWaiters(1);
  EXPECT_FALSE(late.has_ended());
  clock.Advance(absl::Milliseconds(1));
  EXPECT_FALSE(late.Result());
}

TEST(FakeClockTest, WaitsForEverWithoutDeadline) {
  FakeClock clock;
  WaitingThread waiting(clock, absl::InfiniteDuration());
  clock.BlockUntilWaiters(1);
  clock.Advance(absl::Hours(24 * 365 * 100));
  clock.BlockUntilWaiters(1);
  EXPECT_FALSE(waiting.has_ended());
  waiting.SetDone();
  EXPECT_TRUE(waiting.Result());
}

TEST(FakeClockTest, ExpiredThreadsNoLongerCountAsWaiting) {
  FakeClock clock;
  absl::Mutex mu;
  const bool done = false;
  std::atomic<int> rounds = 0;
  Thread looping("loop", [&] {
    while (rounds < 100) {
      absl::MutexLock lock(&mu);
      clock.AwaitWithDeadline(&mu, absl::Condition(&done),
                              clock.Now() + absl::Seconds(1));
      ++rounds;
    }
  });
  for (int i = 0; i < 100; ++i) {
    clock.BlockUntilWaiters(1);
    EXPECT_EQ(rounds, i);
    clock.Advance(absl::Seconds(1));
  }
  looping.Join();
}

TEST(FakeClockTest, WaitsWithAMutexThatIsHeldShared) {
  FakeClock clock;
  absl::Mutex mu;
  const bool done = false;
  Thread reader("reader", [&] {
    absl::ReaderMutexLock lock(&mu);
    EXPECT_FALSE(clock.AwaitWithDeadline(&mu, absl::Condition(&done),
                                         clock.Now() + absl::Seconds(1)));
  });
  clock.BlockUntilWaiters(1);
  clock.Advance(absl::Seconds(2));
  reader.Join();
}

// The waiter's mutex and flag die as soon as AwaitWithDeadline returns, while
// time moves and the condition comes true at the same moment: what a sanitizer
// looks at.
TEST(FakeClockTest, ConditionAndDeadlineMayRace) {
  FakeClock clock;
  for (int round = 0; round < 300; ++round) {
    auto waiting = std::make_unique<WaitingThread>(clock, absl::Seconds(1));
    Thread mover("mover", [&clock] { clock.Advance(absl::Seconds(1)); });
    waiting->SetDone();
    EXPECT_TRUE(waiting->Result() || clock.Now() > MonotonicTime());
    waiting.reset();
    mover.Join();
  }
}

TEST(FakeClockTest, ManyThreadsEachMeetTheirDeadline) {
  FakeClock clock;
  std::vector<std::unique_ptr<WaitingThread>> threads;
  for (int i = 1; i <= 16; ++i) {
    threads.push_back(std::make_unique<WaitingThread>(clock, absl::Seconds(i)));
  }
  for (int left = 16; left > 0; --left) {
    clock.BlockUntilWaiters(left);
    clock.Advance(absl::Seconds(1));
    EXPECT_FALSE(threads[16 - left]->Result());
  }
}

}  // namespace
}  // namespace stoker
