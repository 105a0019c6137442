#include "runner/run_watch.h"

#include <gtest/gtest.h>

#include "absl/synchronization/mutex.h"
#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

TEST(RunWatchTest, TellsOfARunThatDoesNotEnd) {
  FakeClock clock;
  absl::Mutex mu;
  absl::Duration told;  // zero: not yet
  const auto is_told = [&] { return told > absl::ZeroDuration(); };
  RunWatch watch(clock, absl::Seconds(100), [&](absl::Duration longest) {
    const absl::MutexLock lock(&mu);
    told = longest;
  });
  const auto quick = watch.Add();
  const auto stuck = watch.Add();
  for (int i = 0; i < 10; ++i) {
    clock.BlockUntilWaiters(1);
    quick->Begin();
    stuck->Begin();
    clock.Advance(absl::Seconds(25));
    quick->End();
    stuck->End();
  }
  {
    const absl::MutexLock lock(&mu);
    EXPECT_FALSE(is_told());
  }
  clock.BlockUntilWaiters(1);
  stuck->Begin();
  // One look too many would wait for ever: it has stopped looking.
  for (int i = 0; i < 5; ++i) {
    clock.BlockUntilWaiters(1);
    clock.Advance(absl::Seconds(25));
  }
  const absl::MutexLock lock(&mu);
  mu.Await(absl::Condition(&is_told));
  EXPECT_GT(told, absl::Seconds(100));
}

TEST(RunWatchTest, AStepOfTheTimeOfDayIsNoHungGpu) {
  FakeClock clock;
  bool told = false;
  {
    RunWatch watch(clock, absl::Seconds(100),
                   [&](absl::Duration) { told = true; });
    const auto running = watch.Add();
    running->Begin();
    for (int i = 0; i < 4; ++i) {
      clock.BlockUntilWaiters(1);
      clock.StepWall(absl::Seconds(120));
      clock.Advance(absl::Seconds(25));
    }
    clock.BlockUntilWaiters(1);
  }
  EXPECT_FALSE(told);
}

TEST(RunWatchTest, ForgetsThreadsThatAreGone) {
  FakeClock clock;
  bool told = false;
  {
    RunWatch watch(clock, absl::Seconds(100),
                   [&](absl::Duration) { told = true; });
    auto gone = watch.Add();
    gone->Begin();
    gone.reset();
    const auto other = watch.Add();
    for (int i = 0; i < 6; ++i) {
      clock.BlockUntilWaiters(1);
      clock.Advance(absl::Seconds(25));
    }
  }
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace stoker
