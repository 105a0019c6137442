#include "planning/traffic.h"

#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernel_cache/kernel_cache.h"
#include "metrics/metrics.h"
#include "tests/fakes/faulty_files.h"
#include "tests/fakes/temp_folder.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ModelSpec Spec(std::vector<std::string> dimensions = {"batch", "tokens"}) {
  ModelSpec spec;
  spec.name = "minilm";
  for (const std::string& name : dimensions) {
    spec.dimensions.push_back({.name = name, .symbol = "s0"});
  }
  return spec;
}

TrafficRecord Record() {
  return {.dimensions = {"batch", "tokens"},
          .requests = {{{1, 7}, 12}, {{1, 16}, 3}},
          .runs = {{{1, 1}, 5}, {{4, 2}, 2}},
          .chosen = std::vector<ShapeBucket>{{{1, 7}}, {{8, 16}}}};
}

TEST(TrafficJsonTest, RoundTrip) {
  EXPECT_EQ(ParseTraffic(TrafficToJson(Record())).value(), Record());
  TrafficRecord least{
      .dimensions = {}, .requests = {}, .runs = {}, .chosen = {}};
  EXPECT_EQ(ParseTraffic(TrafficToJson(least)).value(), least);
  least.chosen.emplace();  // none is not the same as never
  EXPECT_EQ(ParseTraffic(TrafficToJson(least)).value(), least);
}

TEST(TrafficJsonTest, WhatItCanNotHaveWritten) {
  const std::string good = TrafficToJson(Record());
  const auto with = [&](const std::string& what, const std::string& instead) {
    std::string text = good;
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), instead);
  };
  const std::string bad[] = {
      "",
      "[]",
      "{}",
      good.substr(0, good.size() / 2),
      with("\"schema\": 1", "\"schema\": 2"),
      with("\"requests\"", "\"wishes\""),
      with("\"count\": 12", "\"count\": 0"),
      with("\"count\": 12", "\"count\": -3"),
      with("\"count\": 12", "\"count\": 1.5"),
      with("\"count\": 12", "\"count\": 18446744073709551615"),
      with("\"count\": 12", "\"count\": \"12\""),
      with("\"count\": 12", "\"number\": 12"),
      with("\"batch\",", ""),
      with("\"batch\"", "7"),
      with("7", "-7"),
      with("7", "9223372036854775807"),
      with("7", "1e30"),
      with("7", "[7]"),
  };
  for (const std::string& text : bad) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseTraffic(text).status())) << text;
  }
  TrafficRecord large = Record();
  large.requests.assign(ModelTraffic::kMaxShapes + 1, {{1, 1}, 1});
  EXPECT_TRUE(
      absl::IsInvalidArgument(ParseTraffic(TrafficToJson(large)).status()));
}

// A byte changed anywhere is refused or read as another record, never a crash.
TEST(TrafficJsonTest, RandomDamage) {
  const std::string good = TrafficToJson(Record());
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    std::string text = good;
    for (int n = 1 + i % 3; n > 0; --n) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    const absl::StatusOr<TrafficRecord> read = ParseTraffic(text);
    if (read.ok()) ModelTraffic(*read).RecordRequest({1, 1});
  }
}

TEST(ModelTrafficTest, GoesOnWhereItStopped) {
  ModelTraffic traffic(Record());
  traffic.RecordRequest({1, 7});
  traffic.RecordRequest({2, 9});
  traffic.RecordRun(1, 1);
  traffic.RecordRun(8, 5);
  traffic.SetChosen({});
  const TrafficRecord now = traffic.Read();
  EXPECT_THAT(now.requests,
              ElementsAre(ShapeCount{{1, 7}, 13}, ShapeCount{{1, 16}, 3},
                          ShapeCount{{2, 9}, 1}));
  EXPECT_THAT(now.runs,
              ElementsAre(ShapeCount{{1, 1}, 6}, ShapeCount{{4, 2}, 2},
                          ShapeCount{{8, 2}, 1}));
  EXPECT_TRUE(now.chosen.has_value() && now.chosen->empty());
  EXPECT_EQ(now.dimensions, Record().dimensions);
}

class TrafficKeeperTest : public testing::Test {
 protected:
  std::unique_ptr<KernelCache> Open(Files& files = Files::Real()) {
    auto cache =
        KernelCache::Open({.root = folder_ / "cache"}, files, metrics_);
    EXPECT_TRUE(cache.ok()) << cache.status();
    return *std::move(cache);
  }
  TempFolder folder_;
  MetricRegistry metrics_;
};

TEST_F(TrafficKeeperTest, SurvivesARestartAndANewVersion) {
  const auto cache = Open();
  {
    TrafficKeeper keeper(&cache->facts());
    const auto traffic = keeper.Of(Spec());
    EXPECT_EQ(keeper.Of(Spec()), traffic);
    keeper.Save();  // nothing happened
    EXPECT_TRUE(absl::IsNotFound(
        cache->facts().ReadRecord("minilm", kTrafficRecord).status()));
    traffic->RecordRequest({1, 5});
    keeper.Save();
  }
  TrafficKeeper keeper(&cache->facts());
  ModelSpec next = Spec();
  next.version = 2;
  EXPECT_THAT(keeper.Of(next)->Read().requests,
              ElementsAre(ShapeCount{{1, 5}, 1}));
}

TEST_F(TrafficKeeperTest, OtherDimensionsBeginAnew) {
  const auto cache = Open();
  TrafficKeeper keeper(&cache->facts());
  const auto before = keeper.Of(Spec());
  before->RecordRequest({1, 5});
  keeper.Save();
  const auto after = keeper.Of(Spec({"batch", "length"}));
  EXPECT_NE(after, before);
  EXPECT_TRUE(after->Read().requests.empty());
  EXPECT_TRUE(LoadTraffic(cache->facts(), Spec({"batch"})).requests.empty());
}

TEST_F(TrafficKeeperTest, ADamagedFileIsSetAside) {
  const auto cache = Open();
  ASSERT_TRUE(cache->facts().WriteRecord("minilm", kTrafficRecord, "{").ok());
  TrafficKeeper keeper(&cache->facts());
  const auto traffic = keeper.Of(Spec());
  EXPECT_TRUE(traffic->Read().requests.empty());
  EXPECT_TRUE(Files::Real()
                  .Stat(folder_ / "cache/v1/traffic/minilm.json.damaged")
                  .ok());
  traffic->RecordRequest({1, 5});
  keeper.Save();
  EXPECT_THAT(cache->facts().ReadRecord("minilm", kTrafficRecord).value(),
              HasSubstr("\"requests\""));
}

TEST_F(TrafficKeeperTest, WithoutADiskItIsRecordedAllTheSame) {
  TrafficKeeper nowhere(nullptr);
  nowhere.Of(Spec())->RecordRequest({1, 5});
  nowhere.Save();

  FaultyFiles files(Files::Real());
  const auto cache = Open(files);
  TrafficKeeper keeper(&cache->facts());
  keeper.Of(Spec())->RecordRequest({1, 5});
  files.FailAllChanges(absl::ResourceExhaustedError("disk full"));
  keeper.Save();
  keeper.Save();
  EXPECT_TRUE(absl::IsNotFound(
      cache->facts().ReadRecord("minilm", kTrafficRecord).status()));
  files.FailAllChanges(absl::OkStatus());
  keeper.Save();
  EXPECT_THAT(LoadTraffic(cache->facts(), Spec()).requests,
              ElementsAre(ShapeCount{{1, 5}, 1}));
}

}  // namespace
}  // namespace stoker
