#include "planning/request_samples.h"

#include <numeric>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kName = "x";

// Offers `count` requests, each with its number as its only value.
void Offer(RequestSamples& samples, int count) {
  for (int i = 0; i < count; ++i) {
    if (!samples.Draw()) continue;
    const Tensor x = MakeTensor<int32_t>(DataType::kInt32, {1}, {i});
    samples.Keep({1}, {&kName, 1}, {&x, 1});
  }
}

std::vector<int> Kept(const RequestSamples& samples) {
  std::vector<int> numbers;
  for (const SampledRequest& sample : samples.Read()) {
    numbers.push_back(ValuesOf<int32_t>(sample.inputs.at(kName))[0]);
  }
  return numbers;
}

TEST(RequestSamplesTest, TheFirstOnesAreAllKept) {
  RequestSamples samples(4, {});
  Offer(samples, 4);
  EXPECT_THAT(Kept(samples), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(samples.changes(), 4u);
}

TEST(RequestSamplesTest, NothingIsDrawnWhereNothingIsAllowed) {
  RequestSamples samples(0, {});
  Offer(samples, 100);
  EXPECT_TRUE(samples.Read().empty());
  EXPECT_EQ(samples.changes(), 0u);
}

// 64 of 6,400 uniform numbers: their mean is 3,200 +- 231, and about 64 ln 100
// more draws are made after the first 64.
TEST(RequestSamplesTest, EachRequestIsAsLikelyAsAnyOther) {
  RequestSamples samples(64, {});
  Offer(samples, 6400);
  const std::vector<int> kept = Kept(samples);
  ASSERT_EQ(kept.size(), 64u);
  EXPECT_NEAR(std::accumulate(kept.begin(), kept.end(), 0.0) / 64, 3200, 700);
  EXPECT_GT(samples.changes(), 250u);
  EXPECT_LT(samples.changes(), 470u);
}

TEST(RequestSamplesTest, LargeRequestsArePassedOver) {
  RequestSamples samples(4, {});
  const Tensor x = MakeTensor<uint8_t>(
      DataType::kUint8, {static_cast<int64_t>(RequestSamples::kMaxBytes) + 1},
      std::vector<uint8_t>(RequestSamples::kMaxBytes + 1));
  ASSERT_TRUE(samples.Draw());
  samples.Keep({1}, {&kName, 1}, {&x, 1});
  EXPECT_TRUE(samples.Read().empty());
}

TEST(RequestSamplesTest, AFileBringsThemBack) {
  RequestSamples samples(3, {});
  Offer(samples, 3);
  const auto bytes = SamplesToBytes(samples.Read());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  auto parsed = ParseSamples(*bytes);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_THAT(parsed->at(2).sizes, ElementsAre(1));
  // Fewer are allowed now.
  const RequestSamples again(2, *std::move(parsed));
  EXPECT_THAT(Kept(again), ElementsAre(0, 1));
}

TEST(ParseSamplesTest, OtherFilesAreRefused) {
  const Tensor x = MakeTensor<int32_t>(DataType::kInt32, {1}, {7});
  for (const char* name :
       {"x", "a/input.x", "64/input.x", "-1/input.x", "0/y", "0/sizes"}) {
    const auto bytes = TensorFileBytes({{name, x}});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_THAT(std::string(ParseSamples(*bytes).status().message()),
                HasSubstr("recorded requests: expected"))
        << name;
  }
  EXPECT_FALSE(ParseSamples("no tensors").ok());
}

}  // namespace
}  // namespace stoker
