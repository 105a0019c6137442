#include "batching/bucket_costs.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

class BucketCostsTest : public ::testing::Test {
 protected:
  void Record(int bucket, absl::Duration run, int times = 1) {
    for (int i = 0; i < times; ++i) {
      clock_.Advance(run);
      costs_.Record(bucket, run, clock_.Now());
    }
  }
  double Estimate(int bucket) {
    costs_.Generation(clock_.Now());
    return costs_.Estimates()[static_cast<size_t>(bucket)];
  }

  const std::vector<ShapeBucket> buckets_ = {{{1, 16}}, {{8, 16}}, {{8, 32}}};
  FakeClock clock_;
  BucketCosts costs_{buckets_};
};

TEST_F(BucketCostsTest, AllCostTheSameBeforeAnyRan) {
  const std::vector<double> estimates = costs_.Estimates();
  EXPECT_EQ(estimates[0], estimates[1]);
  EXPECT_EQ(estimates[0], estimates[2]);
}

TEST_F(BucketCostsTest, OneThatNeverRanIsNoDearerThanASmallerOne) {
  Record(1, absl::Milliseconds(16));
  const std::vector<double> estimates = costs_.Estimates();
  EXPECT_DOUBLE_EQ(estimates[1], 0.016);
  EXPECT_DOUBLE_EQ(estimates[2], 0.016);
  EXPECT_DOUBLE_EQ(estimates[0], 0.002);  // an eighth of the elements
}

// One row was served in the bucket of eight for ten seconds, because its own
// had been slow once: eager, which had never run before.
TEST_F(BucketCostsTest, AFirstRunDoesNotMakeItDearerThanALargerOne) {
  costs_.Reset(1, absl::Microseconds(770), clock_.Now());
  Record(0, absl::Milliseconds(20));
  EXPECT_DOUBLE_EQ(Estimate(0), 770e-6);
  Record(0, absl::Microseconds(560));
  EXPECT_DOUBLE_EQ(Estimate(0), 560e-6);
}

TEST_F(BucketCostsTest, ItsSecondRunMay) {
  costs_.Reset(1, absl::Milliseconds(2), clock_.Now());
  Record(0, absl::Milliseconds(20));
  Record(0, absl::Milliseconds(10));
  EXPECT_DOUBLE_EQ(Estimate(0), 0.01);
}

TEST_F(BucketCostsTest, FollowsTheRuns) {
  Record(0, absl::Milliseconds(10), 8);
  Record(0, absl::Milliseconds(14), 5);
  EXPECT_DOUBLE_EQ(Estimate(0), 0.014);
}

TEST_F(BucketCostsTest, ThreeSlowRunsOfEightAreNotBelieved) {
  Record(0, absl::Milliseconds(10), 5);
  Record(0, absl::Seconds(10), 3);
  EXPECT_DOUBLE_EQ(Estimate(0), 0.01);
}

// On a busy machine a small bucket seemed dearer than a large one: requests
// went to the large one from then on, and nothing told that the noise was over.
TEST_F(BucketCostsTest, WhatSeemedDearIsTriedAgain) {
  Record(0, absl::Milliseconds(3), 3);
  Record(0, absl::Milliseconds(100), 5);
  Record(2, absl::Milliseconds(40), 8);
  EXPECT_DOUBLE_EQ(Estimate(0), 0.1);
  const uint64_t before = costs_.Generation(clock_.Now());
  for (int i = 0; i < 9; ++i) {
    clock_.Advance(absl::Seconds(1));
    Record(2, absl::Milliseconds(40));
  }
  EXPECT_EQ(costs_.Generation(clock_.Now()), before);
  clock_.Advance(absl::Seconds(1));
  EXPECT_NE(costs_.Generation(clock_.Now()), before);
  EXPECT_DOUBLE_EQ(Estimate(0), 0.003);
  EXPECT_DOUBLE_EQ(Estimate(2), 0.04);
}

TEST_F(BucketCostsTest, TwoRunsTellThatItIsDearIndeed) {
  Record(0, absl::Milliseconds(3), 3);
  Record(0, absl::Milliseconds(100), 5);
  clock_.Advance(BucketCosts::kForget);
  EXPECT_DOUBLE_EQ(Estimate(0), 0.003);
  Record(0, absl::Milliseconds(100));
  EXPECT_DOUBLE_EQ(Estimate(0), 0.003);
  Record(0, absl::Milliseconds(100));
  EXPECT_DOUBLE_EQ(Estimate(0), 0.1);
}

// Whoever has the core for a time slice holds up a thousand runs of a
// microsecond, and says nothing of any.
TEST_F(BucketCostsTest, RunsOfOneMomentCountAsTheQuickest) {
  Record(0, absl::Microseconds(5), 3000);
  Record(0, absl::Microseconds(160), 30);
  EXPECT_DOUBLE_EQ(Estimate(0), 5e-6);
  Record(0, absl::Microseconds(160), 300);
  EXPECT_DOUBLE_EQ(Estimate(0), 160e-6);
}

// Nothing but slow runs is known of the small one.
TEST_F(BucketCostsTest, WhatSeemedDearIsTriedWhereALargerOneIsNot) {
  Record(0, absl::Milliseconds(100), 8);
  Record(1, absl::Milliseconds(50), 8);
  Record(2, absl::Milliseconds(40), 8);
  EXPECT_DOUBLE_EQ(Estimate(0), 0.1);
  clock_.Advance(BucketCosts::kForget - absl::Milliseconds(1));
  Record(2, absl::Milliseconds(40));
  EXPECT_DOUBLE_EQ(Estimate(0), 0.04);
  EXPECT_DOUBLE_EQ(Estimate(1), 0.04);
  EXPECT_DOUBLE_EQ(Estimate(2), 0.04);
}

TEST_F(BucketCostsTest, OneRunThatEndedAtOnceIsNoQuickBucket) {
  Record(0, absl::Milliseconds(10), 7);
  clock_.Advance(BucketCosts::kSpell);
  Record(0, absl::Microseconds(1));
  clock_.Advance(BucketCosts::kForget);
  EXPECT_DOUBLE_EQ(Estimate(0), 0.01);
}

TEST_F(BucketCostsTest, ResetForgetsWhatRanBefore) {
  Record(0, absl::Milliseconds(10), 9);
  costs_.Reset(0, absl::Milliseconds(4), clock_.Now());
  EXPECT_DOUBLE_EQ(Estimate(0), 0.004);
}

TEST_F(BucketCostsTest, TheGenerationTellsOfRealChanges) {
  Record(0, absl::Milliseconds(10));
  const uint64_t first = costs_.Generation(clock_.Now());
  Record(0, absl::Microseconds(10'100), 2);
  EXPECT_EQ(costs_.Generation(clock_.Now()), first);
  costs_.Reset(0, absl::Milliseconds(4), clock_.Now());
  EXPECT_NE(costs_.Generation(clock_.Now()), first);
}

TEST_F(BucketCostsTest, WithinIsOfBucketsThatRanOnly) {
  EXPECT_FALSE(costs_.Within(0, absl::InfiniteDuration()));
  Record(0, absl::Microseconds(20));
  EXPECT_TRUE(costs_.Within(0, absl::Microseconds(21)));
  EXPECT_FALSE(costs_.Within(0, absl::Microseconds(20)));
  EXPECT_FALSE(costs_.Within(1, absl::InfiniteDuration()));
  Record(0, absl::Microseconds(200));  // held up
  EXPECT_TRUE(costs_.Within(0, absl::Microseconds(21)));
  Record(0, absl::Milliseconds(1));
  EXPECT_FALSE(costs_.Within(0, absl::Microseconds(21)));
  Record(0, absl::Microseconds(20));
  EXPECT_TRUE(costs_.Within(0, absl::Microseconds(21)));
}

TEST_F(BucketCostsTest, ARunTooShortForTheClockCountsAsSome) {
  Record(0, absl::ZeroDuration());
  EXPECT_GT(Estimate(0), 0);
}

}  // namespace
}  // namespace stoker
