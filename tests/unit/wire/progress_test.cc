#include "wire/progress.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

constexpr MonotonicTime kStart = MonotonicTime::FromNanoseconds(0);

TEST(Progress, WhoMovesEnoughGoesOn) {
  Progress progress(absl::Seconds(10), 1000);
  EXPECT_FALSE(progress.Stalled(kStart + absl::Hours(1)));
  progress.Begin(kStart);
  EXPECT_FALSE(progress.Stalled(kStart + absl::Seconds(9)));
  EXPECT_TRUE(progress.Stalled(kStart + absl::Seconds(10)));
  progress.Add(600, kStart + absl::Seconds(5));
  EXPECT_TRUE(progress.Stalled(kStart + absl::Seconds(10)));
  progress.Add(400, kStart + absl::Seconds(8));
  EXPECT_FALSE(progress.Stalled(kStart + absl::Seconds(17)));
  EXPECT_TRUE(progress.Stalled(kStart + absl::Seconds(18)));
  progress.End();
  EXPECT_FALSE(progress.Stalled(kStart + absl::Hours(1)));
}

TEST(Progress, AByteNowAndThenIsNone) {
  Progress progress(absl::Seconds(10), 1000);
  progress.Begin(kStart);
  for (int second = 1; second < 10; ++second) {
    progress.Add(1, kStart + absl::Seconds(second));
  }
  EXPECT_TRUE(progress.Stalled(kStart + absl::Seconds(10)));
}

}  // namespace
}  // namespace stoker
