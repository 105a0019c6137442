#include "loadtest/generator/arrivals.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker::loadtest {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> Take(Arrivals arrivals, int count) {
  std::vector<int64_t> times;
  for (int i = 0; i < count; ++i) times.push_back(arrivals.NextNs());
  return times;
}

TEST(ArrivalsTest, ConstantOnesAreEvenlySpacedWithoutDrift) {
  EXPECT_THAT(Take(Arrivals::Constant(1000), 3),
              ElementsAre(0, 1'000'000, 2'000'000));
  // A third of a second each: errors must not add up.
  EXPECT_EQ(Take(Arrivals::Constant(3), 3'000'001).back(),
            1'000'000'000'000'000);
}

TEST(ArrivalsTest, PoissonHasTheRateAndTheSpreadOfAnExponential) {
  const std::vector<int64_t> times = Take(Arrivals::Poisson(500, 1), 50000);
  const double mean = static_cast<double>(times.back()) / 50000;
  EXPECT_NEAR(mean, 2e6, 2e6 * 0.02);
  double squares = 0;
  for (size_t i = 1; i < times.size(); ++i) {
    const double gap = static_cast<double>(times[i] - times[i - 1]);
    EXPECT_GE(gap, 0);
    squares += (gap - mean) * (gap - mean);
  }
  // The standard deviation of an exponential is its mean.
  EXPECT_NEAR(std::sqrt(squares / 50000), mean, mean * 0.03);
}

TEST(ArrivalsTest, OneSeedIsOneSchedule) {
  EXPECT_EQ(Take(Arrivals::Poisson(10, 5), 100),
            Take(Arrivals::Poisson(10, 5), 100));
  EXPECT_NE(Take(Arrivals::Poisson(10, 5), 100),
            Take(Arrivals::Poisson(10, 6), 100));
}

TEST(ArrivalsTest, RecordedOnesRepeatWithTheirMeanGapInBetween) {
  const Arrivals arrivals = Arrivals::Recorded({0, 10, 40}, 1);
  // Two gaps of 20 on average: the second round begins 20 after the first ends.
  EXPECT_THAT(Take(arrivals, 6), ElementsAre(0, 10, 40, 60, 70, 100));
  EXPECT_DOUBLE_EQ(arrivals.rate(), 1e9 / 20);
}

TEST(ArrivalsTest, RecordedOnesKeepTheirFirstOffset) {
  EXPECT_THAT(Take(Arrivals::Recorded({100, 200}, 1), 4),
              ElementsAre(100, 200, 300, 400));
}

TEST(ArrivalsTest, SpeedShortensTheRecord) {
  const Arrivals arrivals = Arrivals::Recorded({0, 10, 40}, 2);
  EXPECT_THAT(Take(arrivals, 4), ElementsAre(0, 5, 20, 30));
  EXPECT_DOUBLE_EQ(arrivals.rate(), 1e9 / 10);
}

TEST(ArrivalsTest, ARecordOfOneMomentComesEverySecond) {
  EXPECT_THAT(Take(Arrivals::Recorded({0, 0}, 1), 4),
              ElementsAre(0, 0, 1'000'000'000, 1'000'000'000));
}

}  // namespace
}  // namespace stoker::loadtest
