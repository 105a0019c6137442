#include "planning/run_cost.h"

#include <gtest/gtest.h>

#include <limits>

namespace stoker {
namespace {

TEST(FitRunCostTest, FindsBothParts) {
  const RunCost cost = FitRunCost({{{1, 16}, 0.003 + 16e-4},
                                   {{1, 64}, 0.003 + 64e-4},
                                   {{8, 64}, 0.003 + 512e-4}});
  EXPECT_NEAR(cost.fixed, 0.003, 1e-9);
  EXPECT_NEAR(cost.per_element, 1e-4, 1e-9);
  EXPECT_NEAR(*cost.mean_error, 0, 1e-6);
  EXPECT_NEAR(cost({2, 100}), 0.023, 1e-9);
}

TEST(FitRunCostTest, SaysHowFarOffItIs) {
  const RunCost cost =
      FitRunCost({{{10}, 1.1}, {{20}, 1.8}, {{30}, 3.1}, {{40}, 3.9}});
  EXPECT_GT(*cost.mean_error, 0.01);
  EXPECT_LT(*cost.mean_error, 0.15);
}

TEST(FitRunCostTest, NoPartIsNegative) {
  // Steeper than its volume.
  const RunCost steep = FitRunCost({{{10}, 1}, {{20}, 4}});
  EXPECT_EQ(steep.fixed, 0);
  EXPECT_GT(steep.per_element, 0);
  // Faster with more elements.
  const RunCost falling = FitRunCost({{{10}, 4}, {{20}, 1}});
  EXPECT_GE(falling.fixed, 0);
  EXPECT_GT(falling.per_element, 0);
}

TEST(FitRunCostTest, RunsOfABusyMachineDoNotBendTheLine) {
  std::vector<MeasuredRun> runs;
  for (const int64_t volume : {16, 32, 64, 128, 256, 512}) {
    runs.push_back({{volume}, 0.002 + 1e-4 * static_cast<double>(volume)});
  }
  runs[1].seconds *= 200;
  runs[5].seconds *= 3;
  const RunCost cost = FitRunCost(runs);
  EXPECT_NEAR(cost.fixed, 0.002, 1e-9);
  EXPECT_NEAR(cost.per_element, 1e-4, 1e-9);
  EXPECT_LT(*cost.mean_error, 0.3);
  // Measured so: two of three while other programs had the cores.
  const RunCost tiny =
      FitRunCost({{{1, 8}, 33e-6}, {{1, 12}, 5.5e-6}, {{1, 32}, 7.8e-3}});
  EXPECT_LT(tiny({1, 32}), 20e-6);
}

TEST(FitRunCostTest, OneVolumeTellsNothingAboutTheParts) {
  const RunCost cost = FitRunCost({{{8}, 2.0}, {{8}, 2.0}});
  EXPECT_TRUE(cost.measured());
  EXPECT_DOUBLE_EQ(cost({8}), 2.0);
  EXPECT_DOUBLE_EQ(cost.fixed, kAssumedLaunchElements * cost.per_element);
}

TEST(FitRunCostTest, NothingMeasured) {
  const RunCost cost = FitRunCost({});
  EXPECT_FALSE(cost.measured());
  EXPECT_EQ(cost({4, 6}), kAssumedLaunchElements + 24);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(
      FitRunCost({{{1}, nan}, {{1}, 0}, {{1}, -1}, {{1}, infinite}, {{0}, 1}})
          .measured());
}

}  // namespace
}  // namespace stoker
