#include "loadtest/generator/size_mix.h"

#include <algorithm>
#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker::loadtest {
namespace {

using ::testing::HasSubstr;

constexpr int kDraws = 20000;

std::map<int64_t, int> Draw(const SizeDistribution& distribution,
                            uint64_t seed = 1) {
  Random random(seed);
  std::map<int64_t, int> counts;
  for (int i = 0; i < kDraws; ++i) ++counts[DrawSize(distribution, random)];
  return counts;
}

TEST(SizeMixTest, FixedIsAlwaysTheSame) {
  EXPECT_EQ(Draw(FixedSize{32}), (std::map<int64_t, int>{{32, kDraws}}));
}

TEST(SizeMixTest, UniformReachesBothEndsEvenly) {
  const auto counts = Draw(UniformSizes{8, 11});
  ASSERT_EQ(counts.size(), 4);
  for (const auto& [size, count] : counts) {
    EXPECT_GE(size, 8);
    EXPECT_LE(size, 11);
    EXPECT_NEAR(count, kDraws / 4, kDraws / 50);
  }
}

TEST(SizeMixTest, LogNormalHasItsMedianAndStaysInItsRange) {
  const auto counts = Draw(LogNormalSizes{100, 0.5, 20, 400});
  int below = 0;
  for (const auto& [size, count] : counts) {
    EXPECT_GE(size, 20);
    EXPECT_LE(size, 400);
    if (size < 100) below += count;
  }
  EXPECT_NEAR(below, kDraws / 2, kDraws / 25);
}

TEST(SizeMixTest, WeightsAreShares) {
  const auto counts = Draw(WeightedSizes{{{16, 3}, {32, 1}, {64, 0}}});
  ASSERT_EQ(counts.size(), 2);
  EXPECT_NEAR(counts.at(16), kDraws * 3 / 4, kDraws / 50);
  EXPECT_NEAR(counts.at(32), kDraws / 4, kDraws / 50);
}

TEST(SizeMixTest, OneSeedIsOneSequence) {
  EXPECT_EQ(Draw(UniformSizes{1, 9}, 4), Draw(UniformSizes{1, 9}, 4));
  EXPECT_NE(Draw(UniformSizes{1, 9}, 4), Draw(UniformSizes{1, 9}, 5));
}

TEST(SizeMixTest, RefusesWhatCannotBeDrawn) {
  const std::pair<SizeDistribution, const char*> wrong[] = {
      {FixedSize{-1}, "0 <= min <= max"},
      {UniformSizes{9, 8}, "got 9 to 8"},
      {LogNormalSizes{0, 1, 1, 2}, "median and sigma above 0"},
      {LogNormalSizes{10, 0, 1, 20}, "median and sigma above 0"},
      {LogNormalSizes{10, 0.1, 1000, 2000}, "that the distribution hits"},
      {WeightedSizes{}, "weight above 0"},
      {WeightedSizes{{{4, -1}}}, "weights from 0 up"},
      {WeightedSizes{{{4, 0}}}, "weight above 0"},
  };
  for (const auto& [distribution, text] : wrong) {
    const absl::Status status = CheckDistribution(distribution);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

TEST(SizeMixTest, ReadsTheFormOfACommandLine) {
  EXPECT_EQ(std::get<FixedSize>(*ParseDistribution("32")).size, 32);
  const auto uniform =
      std::get<UniformSizes>(*ParseDistribution("uniform:8:128"));
  EXPECT_EQ(uniform.min, 8);
  EXPECT_EQ(uniform.max, 128);
  const auto normal =
      std::get<LogNormalSizes>(*ParseDistribution("lognormal:24:0.6:8:128"));
  EXPECT_EQ(normal.median, 24);
  EXPECT_EQ(normal.sigma, 0.6);
  EXPECT_EQ(normal.max, 128);
  const auto weighted =
      std::get<WeightedSizes>(*ParseDistribution("weighted:16=3:32=1.5"));
  EXPECT_EQ(weighted.weights[1], (std::pair<int64_t, double>{32, 1.5}));
}

TEST(SizeMixTest, SaysWhichFormItExpected) {
  for (const char* text :
       {"", "x", "uniform:8", "uniform:8:x", "uniform:9:8", "lognormal:1:2:3",
        "weighted", "weighted:16", "weighted:16=x", "normal:1:2"}) {
    const auto parsed = ParseDistribution(text);
    EXPECT_EQ(parsed.status().code(), absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_THAT(std::string(ParseDistribution("unifrom:1:2").status().message()),
              HasSubstr("uniform:MIN:MAX"));
}

}  // namespace
}  // namespace stoker::loadtest
