#include "loadtest/generator/scenario.h"

#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker::loadtest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ScenarioTest, ReadsEveryField) {
  const auto scenario = ParseScenario(R"(
name: everything
model: tokens
version: 3
stream: true
check_answers: true
connections: 2
threads: 3
seed: 9
messages: 7
window_seconds: 0.5
timeout_ms: 250
slo: {latency_ms: 20, percentile: 95, max_errors: 0.01}
trace: lengths.csv
warmup_seconds: 1
measure_seconds: 4
dimensions:
  tokens: {axes: [ids.1, mask.1], sizes: {uniform: [8, 128]}}
  batch: {axes: [ids.0], sizes: {weighted: {1: 3, 2: 1}}}
  long: {axes: [x.0], sizes: {lognormal: {median: 24, sigma: 0.5, min: 1, max: 90}}}
  one: {axes: [y.0], sizes: 4}
inputs:
  ids: {range: [0, 99]}
parameters: {priority: 1, timeout: 5000, greedy: true, tag: abc}
steps:
  - closed: [1, 8]
  - {name: steady, open: {arrivals: constant, rate: 50}, warmup_seconds: 0}
  - open: {arrivals: trace, speed: 2}
  - search: {arrivals: constant, min_rate: 3, max_rate: 900, resolution: 0.1, confirmations: 1, concurrency: 4}
  - open: {rate_of_peak: 1.5}
)",
                                      "folder/all.yaml");
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->name, "everything");
  EXPECT_EQ(scenario->version, "3");
  EXPECT_TRUE(scenario->stream);
  EXPECT_TRUE(scenario->check_answers);
  EXPECT_EQ(scenario->connections, 2);
  EXPECT_EQ(scenario->threads, 3);
  EXPECT_EQ(scenario->seed, 9);
  EXPECT_EQ(scenario->messages, 7);
  EXPECT_EQ(scenario->window, absl::Milliseconds(500));
  EXPECT_EQ(scenario->timeout, absl::Milliseconds(250));
  EXPECT_EQ(scenario->slo.latency, absl::Milliseconds(20));
  EXPECT_EQ(scenario->slo.percentile, 95);
  EXPECT_EQ(scenario->slo.max_errors, 0.01);
  EXPECT_EQ(scenario->trace->path, "folder/lengths.csv");

  ASSERT_EQ(scenario->dimensions.size(), 4);
  EXPECT_THAT(scenario->dimensions[0].axes, ElementsAre("ids.1", "mask.1"));
  EXPECT_EQ(std::get<UniformSizes>(scenario->dimensions[0].sizes).max, 128);
  EXPECT_EQ(
      std::get<WeightedSizes>(scenario->dimensions[1].sizes).weights.size(), 2);
  EXPECT_EQ(std::get<LogNormalSizes>(scenario->dimensions[2].sizes).max, 90);
  EXPECT_EQ(std::get<FixedSize>(scenario->dimensions[3].sizes).size, 4);
  EXPECT_EQ(scenario->ranges.at("ids").max, 99);
  EXPECT_EQ(std::get<int64_t>(scenario->parameters.at("timeout")), 5000);
  EXPECT_TRUE(std::get<bool>(scenario->parameters.at("greedy")));
  EXPECT_EQ(std::get<std::string>(scenario->parameters.at("tag")), "abc");

  ASSERT_EQ(scenario->steps.size(), 6);
  EXPECT_EQ(std::get<ClosedLoop>(scenario->steps[1].load).concurrency, 8);
  EXPECT_EQ(scenario->steps[1].measure, absl::Seconds(4));
  EXPECT_EQ(scenario->steps[2].name, "steady");
  EXPECT_EQ(scenario->steps[2].warmup, absl::ZeroDuration());
  EXPECT_EQ(std::get<OpenLoop>(scenario->steps[2].load).rate, 50);
  EXPECT_EQ(std::get<OpenLoop>(scenario->steps[3].load).speed, 2);
  EXPECT_EQ(std::get<RateSearch>(scenario->steps[4].load).max_rate, 900);
  EXPECT_EQ(std::get<OpenLoop>(scenario->steps[5].load).rate_of_peak, 1.5);
  EXPECT_EQ(scenario->steps[5].name, "poisson, 150 % of peak");
}

TEST(ScenarioTest, TakesTheFilesNameAndGivenTimes) {
  StepTimes times;
  times.warmup = absl::ZeroDuration();
  times.measure = absl::Seconds(1);
  const auto scenario =
      ParseScenario("model: m\nsteps: [{closed: 1, measure_seconds: 60}]\n",
                    "a/quick.yaml", times);
  ASSERT_TRUE(scenario.ok()) << scenario.status();
  EXPECT_EQ(scenario->name, "quick");
  EXPECT_EQ(scenario->steps[0].warmup, absl::ZeroDuration());
  EXPECT_EQ(scenario->steps[0].measure, absl::Seconds(1));
}

struct Wrong {
  const char* text;
  const char* message;
};

class ScenarioErrorTest : public testing::TestWithParam<Wrong> {};

TEST_P(ScenarioErrorTest, NamesFileLineAndWhatWasExpected) {
  const auto scenario = ParseScenario(GetParam().text, "s.yaml");
  EXPECT_EQ(scenario.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(scenario.status().message()),
              HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Files, ScenarioErrorTest,
    testing::Values(
        Wrong{"steps: [{closed: 1}]", "expected a field model, got none"},
        Wrong{"model: m", "expected a field steps"},
        Wrong{"model: m\nsteps: []", "at least one step"},
        Wrong{"model: m\nsteps:\n- closed: 0",
              "s.yaml:3: steps[0].closed: expected an integer from 1 to 65536, "
              "got 0"},
        Wrong{"model: m\nsteps: [{closed: []}]", "at least one concurrency"},
        Wrong{"model: m\nsteps: [{closed: 1, open: {rate: 1}}]",
              "expected one of closed, open and search"},
        Wrong{"model: m\nsteps: [{open: {}}]", "either rate or rate_of_peak"},
        Wrong{"model: m\nsteps: [{open: {rate: 1, rate_of_peak: 1}}]",
              "either rate or rate_of_peak"},
        Wrong{"model: m\nsteps: [{open: {rate_of_peak: 1}}]",
              "a step with a search before this one"},
        Wrong{"model: m\nsteps: [{open: {rate: -3}}]",
              "requests per second, above 0"},
        Wrong{"model: m\nsteps: [{open: {arrivals: trace}}]",
              "expected a trace in this file"},
        Wrong{"model: m\nsteps: [{open: {arrivals: bursty, rate: 1}}]",
              "expected poisson or constant or trace, got bursty"},
        Wrong{"model: m\nsteps: [{search: {min_rate: 5, max_rate: 4}}]",
              "a max_rate above min_rate"},
        Wrong{"model: m\nstep: []", "did you mean steps?"},
        Wrong{"model: m\nsteps: [{closed: 1}]\ndimensions: {t: {sizes: 3}}",
              "s.yaml:3: dimensions.t: expected axes"},
        Wrong{"model: m\nsteps: [{closed: 1}]\n"
              "dimensions: {t: {axes: [x.1], sizes: {uniform: [9, 8]}}}",
              "got expected sizes 0 <= min <= max, got 9 to 8"},
        Wrong{"model: m\nsteps: [{closed: 1}]\n"
              "dimensions: {t: {axes: [x.1], sizes: {lognormal: {median: 9}}}}",
              "expected median, sigma, min and max"},
        Wrong{"model: m\nsteps: [{closed: 1}]\n"
              "dimensions: {t: {axes: [x.1], sizes: {weighted: {a: 1}}}}",
              "a map of sizes to weights"},
        Wrong{"model: m\nsteps: [{closed: 1}]\ninputs: {x: {range: [2, 1]}}",
              "two finite numbers in order"},
        Wrong{"model: m\nsteps: [{closed: 1}]\nmeasure_seconds: 0",
              "s.yaml:3: measure_seconds: expected a time above 0"},
        Wrong{"model: m\nsteps: [{closed: 1}]\nslo: {percentile: 101}",
              "a number from 1 to 100"},
        Wrong{"model: [", "s.yaml:"}));

TEST(ScenarioTest, ShowsEveryMistakeAtOnce) {
  const auto scenario = ParseScenario(
      "model: m\nseed: x\nthreads: -1\nsteps: [{closed: 1}]", "s.yaml");
  const std::string message(scenario.status().message());
  EXPECT_THAT(message, HasSubstr("s.yaml:2: seed"));
  EXPECT_THAT(message, HasSubstr("s.yaml:3: threads"));
}

TEST(ScenarioTest, TheShippedOnesAreRight) {
  int files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("loadtest/scenarios")) {
    if (entry.path().extension() != ".yaml") continue;
    ++files;
    const auto scenario = ReadScenario(entry.path());
    EXPECT_TRUE(scenario.ok()) << scenario.status();
  }
  EXPECT_GE(files, 6);
}

TEST(ScenarioTest, SaysWhichFileIsMissing) {
  EXPECT_EQ(ReadScenario("/nonexistent/a.yaml").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stoker::loadtest
