#include "batching/bucket_costs.h"

#include <gtest/gtest.h>

#include <vector>

namespace stoker {
namespace {

class BucketCostsTest : public ::testing::Test {
 protected:
  const std::vector<ShapeBucket> buckets_ = {{{1, 16}}, {{8, 16}}, {{8, 32}}};
  BucketCosts costs_{buckets_};
};

TEST_F(BucketCostsTest, AllCostTheSameBeforeAnyRan) {
  const std::vector<double> estimates = costs_.Estimates();
  EXPECT_EQ(estimates[0], estimates[1]);
  EXPECT_EQ(estimates[0], estimates[2]);
}

TEST_F(BucketCostsTest, OneThatNeverRanIsNoDearerThanASmallerOne) {
  costs_.Record(1, absl::Milliseconds(16));
  const std::vector<double> estimates = costs_.Estimates();
  EXPECT_DOUBLE_EQ(estimates[1], 0.016);
  EXPECT_DOUBLE_EQ(estimates[2], 0.016);
  EXPECT_DOUBLE_EQ(estimates[0], 0.002);  // an eighth of the elements
}

TEST_F(BucketCostsTest, FollowsTheRuns) {
  costs_.Record(0, absl::Milliseconds(10));
  for (int i = 0; i < 60; ++i) costs_.Record(0, absl::Milliseconds(14));
  EXPECT_NEAR(costs_.Estimates()[0], 0.014, 1e-5);
}

TEST_F(BucketCostsTest, OneSlowRunMovesLittle) {
  costs_.Record(0, absl::Milliseconds(10));
  costs_.Record(0, absl::Seconds(10));
  EXPECT_NEAR(costs_.Estimates()[0], 0.01125, 1e-9);
}

TEST_F(BucketCostsTest, ResetForgetsWhatRanBefore) {
  for (int i = 0; i < 9; ++i) costs_.Record(0, absl::Milliseconds(10));
  costs_.Reset(0, absl::Milliseconds(4));
  EXPECT_DOUBLE_EQ(costs_.Estimates()[0], 0.004);
}

TEST_F(BucketCostsTest, TheGenerationTellsOfRealChanges) {
  costs_.Record(0, absl::Milliseconds(10));
  const uint64_t first = costs_.generation();
  costs_.Record(0, absl::Microseconds(10'100));
  EXPECT_EQ(costs_.generation(), first);
  costs_.Reset(0, absl::Milliseconds(4));
  EXPECT_NE(costs_.generation(), first);
}

TEST_F(BucketCostsTest, WithinIsOfBucketsThatRanOnly) {
  EXPECT_FALSE(costs_.Within(0, absl::InfiniteDuration()));
  costs_.Record(0, absl::Microseconds(20));
  EXPECT_TRUE(costs_.Within(0, absl::Microseconds(21)));
  EXPECT_FALSE(costs_.Within(0, absl::Microseconds(20)));
  EXPECT_FALSE(costs_.Within(1, absl::InfiniteDuration()));
}

TEST_F(BucketCostsTest, ARunTooShortForTheClockCountsAsSome) {
  costs_.Record(0, absl::ZeroDuration());
  EXPECT_GT(costs_.Estimates()[0], 0);
}

}  // namespace
}  // namespace stoker
