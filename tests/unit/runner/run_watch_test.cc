#include "runner/run_watch.h"

#include <gtest/gtest.h>

#include "absl/synchronization/notification.h"
#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

TEST(RunWatchTest, TellsOfARunThatDoesNotEnd) {
  FakeClock clock;
  absl::Notification told;
  absl::Duration since;
  RunWatch watch(clock, absl::Seconds(100), [&](absl::Duration longest) {
    since = longest;
    told.Notify();
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
  EXPECT_FALSE(told.HasBeenNotified());
  stuck->Begin();
  for (int i = 0; i < 5 && !told.HasBeenNotified(); ++i) {
    clock.BlockUntilWaiters(1);
    clock.Advance(absl::Seconds(25));
  }
  told.WaitForNotification();
  EXPECT_GT(since, absl::Seconds(100));
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
