#include "loadtest/generator/histogram.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "gtest/gtest.h"
#include "loadtest/generator/random.h"

namespace stoker::loadtest {
namespace {

TEST(HistogramTest, IsEmptyAtFirst) {
  const Histogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), 0);
  EXPECT_EQ(histogram.Percentile(99), 0);
  EXPECT_EQ(histogram.mean(), 0);
}

TEST(HistogramTest, KnowsSmallValuesExactly) {
  Histogram histogram;
  for (int64_t ns = 1; ns <= 1000; ++ns) histogram.Record(ns);
  EXPECT_EQ(histogram.Percentile(50), 500);
  EXPECT_EQ(histogram.Percentile(99.9), 999);
  EXPECT_EQ(histogram.Percentile(100), 1000);
  EXPECT_EQ(histogram.Percentile(0), 1);
  EXPECT_DOUBLE_EQ(histogram.mean(), 500.5);
}

TEST(HistogramTest, KnowsEveryMagnitudeToATenthOfAPerCent) {
  for (int64_t ns = 1; ns < Histogram::kMaxNs; ns = ns * 17 / 10 + 1) {
    Histogram histogram;
    histogram.Record(ns);
    histogram.Record(Histogram::kMaxNs);  // or max() would be the answer
    const auto found = static_cast<double>(histogram.Percentile(50));
    EXPECT_GE(found, static_cast<double>(ns));
    EXPECT_LE(found, static_cast<double>(ns) * 1.001) << ns;
  }
}

TEST(HistogramTest, AgreesWithSortedValues) {
  Random random(7);
  Histogram histogram;
  std::vector<int64_t> values;
  for (int i = 0; i < 20000; ++i) {
    values.push_back(static_cast<int64_t>(std::exp(10 + 3 * random.Normal())));
    histogram.Record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double percentile : {1.0, 10.0, 50.0, 90.0, 99.0, 99.9}) {
    const auto rank = static_cast<size_t>(std::ceil(
        percentile / 100 * static_cast<double>(values.size()) - 1e-6));
    const auto exact = static_cast<double>(values[rank - 1]);
    const auto found = static_cast<double>(histogram.Percentile(percentile));
    EXPECT_GE(found, exact) << percentile;
    EXPECT_LE(found, exact * 1.001 + 1) << percentile;
  }
  EXPECT_EQ(histogram.min(), values.front());
  EXPECT_EQ(histogram.max(), values.back());
}

TEST(HistogramTest, AddsUp) {
  Histogram left, right;
  left.Record(10);
  right.Record(30);
  right.Record(5'000'000);
  left.Add(right);
  EXPECT_EQ(left.count(), 3);
  EXPECT_EQ(left.min(), 10);
  EXPECT_EQ(left.max(), 5'000'000);
  EXPECT_EQ(left.Percentile(50), 30);
}

TEST(HistogramTest, ClampsWhatCannotBe) {
  Histogram histogram;
  histogram.Record(-5);
  histogram.Record(Histogram::kMaxNs * 2);
  EXPECT_EQ(histogram.min(), 0);
  EXPECT_EQ(histogram.max(), Histogram::kMaxNs);
}

TEST(HistogramTest, VisitsBucketsInOrderWithoutGapsInTheCount) {
  Histogram histogram;
  Random random(3);
  for (int i = 0; i < 1000; ++i) histogram.Record(random.Integer(0, 1'000'000));
  int64_t seen = 0, last = -1;
  histogram.ForEach([&](int64_t low, int64_t high, int64_t count) {
    EXPECT_GT(low, last);
    EXPECT_GE(high, low);
    last = high;
    seen += count;
  });
  EXPECT_EQ(seen, 1000);
}

}  // namespace
}  // namespace stoker::loadtest
