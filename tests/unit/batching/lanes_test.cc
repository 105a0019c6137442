#include "batching/lanes.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(LanesTest, BucketsThatDifferInRowsOnlyShareALane) {
  const Lanes lanes({{{1, 16}}, {{8, 16}}, {{1, 32}}, {{8, 32}}}, {true, true},
                    0);
  EXPECT_EQ(lanes.count(), 2);
  EXPECT_EQ(lanes.row_sizes(), (std::vector<int64_t>{1, 8}));
  EXPECT_EQ(lanes.Find({3, 7}), lanes.Find({1, 16}));
  EXPECT_NE(lanes.Find({3, 17}), lanes.Find({1, 16}));
  EXPECT_EQ(lanes.Find({1, 33}), -1);
  EXPECT_EQ(lanes.Find({9, 16}), -1);
}

TEST(LanesTest, ALargerLaneTakesWhatItsOwnHasNoRowsFor) {
  const Lanes lanes({{{1, 16}}, {{8, 32}}}, {true, true}, 0);
  const int small = lanes.Find({1, 10});
  const int large = lanes.Find({1, 30});
  EXPECT_NE(small, large);
  EXPECT_EQ(lanes.Find({4, 10}), small);  // in the bucket of 8 x 32
  EXPECT_TRUE(lanes.Holds(1, small, 4));
  EXPECT_FALSE(lanes.Holds(0, small, 4));
  EXPECT_EQ(lanes.Join(small, large), large);
}

TEST(LanesTest, SizesThatMayNotBePaddedAreEqual) {
  const Lanes lanes({{{8, 4}}, {{8, 5}}}, {true, false}, 0);
  EXPECT_EQ(lanes.Find({1, 3}), -1);
  const int four = lanes.Find({1, 4}), five = lanes.Find({1, 5});
  EXPECT_NE(four, five);
  EXPECT_EQ(lanes.Join(four, five), -1);
  EXPECT_EQ(lanes.Join(four, four), four);
}

TEST(LanesTest, TwoDimensionsJoinInALaneThatHoldsBoth) {
  // Tall and wide pictures; only the square bucket takes both.
  const Lanes lanes({{{4, 8, 16}}, {{4, 16, 8}}, {{4, 16, 16}}},
                    {true, true, true}, 0);
  const int wide = lanes.Find({1, 8, 16}), tall = lanes.Find({1, 16, 8});
  const int both = lanes.Join(wide, tall);
  EXPECT_EQ(both, lanes.Find({1, 16, 16}));
  EXPECT_TRUE(lanes.Holds(2, both, 4));
  EXPECT_FALSE(lanes.Holds(0, both, 1));
}

TEST(LanesTest, WithoutABatchDimensionThereIsOneRow) {
  const Lanes lanes({{{4}}, {{8}}}, {true}, std::nullopt);
  EXPECT_EQ(lanes.row_sizes(), (std::vector<int64_t>{1}));
  EXPECT_EQ(lanes.count(), 2);
  EXPECT_EQ(lanes.Find({5}), lanes.Find({8}));
}

TEST(LanesTest, WithoutBucketsThereAreNone) {
  const Lanes lanes({}, {true, true}, 0);
  EXPECT_EQ(lanes.count(), 0);
  EXPECT_EQ(lanes.Find({1, 1}), -1);
}

}  // namespace
}  // namespace stoker
