#include "loadtest/generator/step_result.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker::loadtest {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kMs = 1'000'000;

// A second in which `count` requests took `latency_ms` each, sent `lag_ms`
// late; the machine has 2 cores.
LoadResult Load(int count, int64_t latency_ms, int64_t lag_ms = 0) {
  Recorder recorder({0, 1000 * kMs, 500 * kMs, 20 * kMs, true});
  for (int i = 0; i < count; ++i) {
    const int64_t due = i * 1000 * kMs / count;
    recorder.Record({due, due + lag_ms * kMs, due + latency_ms * kMs});
  }
  LoadResult load;
  load.recording = recorder.recording();
  load.seconds = 1;
  load.due = count;
  load.use = {0.5, 0.5, 1.9, 2};
  return load;
}

TEST(StepResultTest, RatesAreOfTheMeasuredTime) {
  StepResult result{.open = true, .load = Load(100, 15)};
  // The last two were answered after the end, and count as good all the same.
  EXPECT_DOUBLE_EQ(Throughput(result), 99);
  EXPECT_DOUBLE_EQ(Goodput(result), 100);
  result.load = Load(100, 25);
  EXPECT_DOUBLE_EQ(Goodput(result), 0);
}

TEST(StepResultTest, AnIdleClientIsNotTheLimit) {
  EXPECT_THAT(FindClientLimits(Load(100, 15), true), IsEmpty());
  // Late, but by little against what was measured.
  EXPECT_THAT(FindClientLimits(Load(100, 100, 5), true), IsEmpty());
}

TEST(StepResultTest, SaysWhyTheClientWasTheLimit) {
  EXPECT_THAT(FindClientLimits(Load(100, 15, 5), true),
              Contains(HasSubstr("p99 5.00 ms after they were due")));
  // A closed loop has no schedule.
  EXPECT_THAT(FindClientLimits(Load(100, 15, 5), false), IsEmpty());
  LoadResult busy = Load(100, 15);
  busy.use.busiest_thread = 0.97;
  EXPECT_THAT(FindClientLimits(busy, false),
              ElementsAre(HasSubstr("busy 97 %")));
  busy = Load(100, 15);
  busy.use.cores = 1.9;
  EXPECT_THAT(FindClientLimits(busy, false),
              ElementsAre(HasSubstr("1.9 of its 2 cores")));
  busy = Load(100, 15);
  busy.unsent = 3;
  EXPECT_THAT(FindClientLimits(busy, true),
              ElementsAre(HasSubstr("3 of 100 requests were not sent")));
}

TEST(StepResultTest, JudgesATrialByTheSlo) {
  const Slo slo{absl::Milliseconds(20), 99, 0.01};
  EXPECT_TRUE(JudgeTrial(100, Load(100, 15), slo).meets);

  const RateTrial slow = JudgeTrial(100, Load(100, 25), slo);
  EXPECT_FALSE(slow.meets);
  EXPECT_THAT(slow.why, HasSubstr("p99 was 25 ms, above 20 ms"));

  LoadResult failing = Load(100, 15);
  failing.recording.measured_ok = 98;
  EXPECT_THAT(JudgeTrial(100, failing, slo).why,
              HasSubstr("2 % of the requests failed"));

  LoadResult behind = Load(100, 15);
  behind.recording.windows[1].ok = 40;
  EXPECT_THAT(JudgeTrial(100, behind, slo).why,
              HasSubstr("answers came for 89.0 %"));

  LoadResult late = Load(100, 15, 5);
  EXPECT_TRUE(JudgeTrial(100, late, slo).client_limited);
}

TEST(StepResultTest, JsonHoldsWhatWasFound) {
  StepResult result{.open = true, .rate = 100, .load = Load(100, 15)};
  result.step.name = "steady";
  result.search = SearchOutcome{
      100.0, {{100, true, "", false}, {200, false, "too slow", false}}, false};
  const auto json = StepJson(result, Slo{absl::Milliseconds(20)});
  EXPECT_EQ(json["name"], "steady");
  EXPECT_EQ(json["load"]["loop"], "open");
  EXPECT_EQ(json["load"]["due"], 100);
  EXPECT_EQ(json["requests"]["measured_ok"], 100);
  EXPECT_DOUBLE_EQ(json["throughput_per_s"], 99);
  EXPECT_DOUBLE_EQ(json["throughput_spread"]["min"], 98);
  EXPECT_DOUBLE_EQ(json["throughput_spread"]["max"], 100);
  EXPECT_DOUBLE_EQ(json["throughput_spread"]["median"], 99);
  EXPECT_DOUBLE_EQ(json["throughput_spread"]["standard_deviation"], 1);
  EXPECT_NEAR(json["latency_ms"]["p99"], 15, 0.02);
  EXPECT_EQ(json["windows"].size(), 2);
  EXPECT_EQ(json["search"]["rate_per_s"], 100);
  EXPECT_EQ(json["search"]["trials"][1]["why"], "too slow");
  EXPECT_FALSE(json["client"]["limited"]);
  EXPECT_EQ(json.count("server"), 0);
  int64_t binned = 0;
  for (const auto& bin : json["latency_bins"]) binned += bin[2].get<int64_t>();
  EXPECT_EQ(binned, 100);
  // Ascending in both, and it ends where one value decides.
  const auto& curve = json["latency_curve"];
  for (size_t i = 1; i < curve.size(); ++i) {
    EXPECT_GT(curve[i][0], curve[i - 1][0]);
    EXPECT_GE(curve[i][1], curve[i - 1][1]);
  }
  EXPECT_GT(curve.back()[0], 99);
}

TEST(StepResultTest, ARunWithoutAnswersIsStillAResult) {
  StepResult result{.open = true, .load = Load(0, 0)};
  const auto json = StepJson(result, Slo{});
  EXPECT_EQ(json["throughput_per_s"], 0);
  EXPECT_TRUE(json["latency_curve"].empty());
  EXPECT_FALSE(StepLine(result).empty());
}

}  // namespace
}  // namespace stoker::loadtest
