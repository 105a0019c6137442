#include "loadtest/generator/html_report.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/generator/result_file.h"
#include "loadtest/generator/svg_plot.h"

namespace stoker::loadtest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

constexpr int64_t kMs = 1'000'000;

nlohmann::ordered_json Result() {
  Recorder recorder({0, 1000 * kMs, 500 * kMs, 20 * kMs, true});
  for (int i = 0; i < 100; ++i) {
    Outcome outcome{i * 10 * kMs, i * 10 * kMs, (i * 10 + 5 + i % 7) * kMs};
    if (i % 25 == 0) {
      outcome.code = grpc::StatusCode::UNAVAILABLE;
      outcome.message = "<script>alert(1)</script>";
    }
    recorder.Record(outcome);
  }
  StepResult step{.open = true, .rate = 100};
  step.step.name = "a & b";
  step.load.recording = recorder.recording();
  step.load.seconds = 1;
  step.load.due = 100;
  step.search = SearchOutcome{100.0, {{130, false, "p99 > 20", false}}, false};
  step.server = {{"queue_ms", {{"mean", 1.5}}}, {"padding_waste", 0.25}};
  step.client_limits = {"a thread was busy"};
  RunResult run;
  run.steps = {step, step};
  run.steps[1].step.name = "second";
  Scenario scenario{.name = "one <b>", .model = "m"};
  return ResultJson(scenario, "127.0.0.1:1", run, {{"commit", "abc"}});
}

TEST(HtmlReportTest, ShowsWhatTheResultHolds) {
  const auto html = HtmlReport(Result());
  ASSERT_TRUE(html.ok()) << html.status();
  for (const char* text :
       {"one &lt;b&gt;", "commit abc", "a &amp; b", "the client was the limit",
        "UNAVAILABLE", "25.0 %", "Latency by percentile", "Answers over time",
        "p99 &gt; 20"}) {
    EXPECT_THAT(*html, HasSubstr(text));
  }
}

TEST(HtmlReportTest, FetchesNothingAndRunsNothing) {
  std::string html = *HtmlReport(Result());
  // The one address is the name of SVG's XML namespace.
  const std::string name = "xmlns=\"http://www.w3.org/2000/svg\"";
  for (size_t at; (at = html.find(name)) != html.npos;) {
    html.erase(at, name.size());
  }
  EXPECT_THAT(html, Not(HasSubstr("http")));
  EXPECT_THAT(html, Not(HasSubstr("<script")));
  EXPECT_THAT(html, Not(HasSubstr("url(")));
  EXPECT_THAT(html, Not(HasSubstr("nan")));
  EXPECT_THAT(html, Not(HasSubstr("inf\"")));
}

TEST(HtmlReportTest, RefusesAnotherDocument) {
  const auto html = HtmlReport(nlohmann::ordered_json::object());
  EXPECT_EQ(html.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(html.status().message()), HasSubstr("steps"));
}

TEST(SvgPlotTest, TicksAreRoundNumbers) {
  EXPECT_THAT(NiceTicks(0, 10, 5),
              ElementsAre(Pair(0, "0"), Pair(2, "2"), Pair(4, "4"),
                          Pair(6, "6"), Pair(8, "8"), Pair(10, "10")));
  EXPECT_THAT(NiceTicks(0.13, 0.31, 4),
              ElementsAre(Pair(testing::DoubleNear(0.15, 1e-9), "0.15"),
                          Pair(testing::DoubleNear(0.2, 1e-9), "0.2"),
                          Pair(testing::DoubleNear(0.25, 1e-9), "0.25"),
                          Pair(testing::DoubleNear(0.3, 1e-9), "0.3")));
  EXPECT_TRUE(NiceTicks(1, 1, 5).empty());
}

TEST(SvgPlotTest, MapsPointsIntoThePlot) {
  const Plot plot{"p",
                  {"x", 0, 10, false, {}},
                  {"y", 1, 100, true, {}},
                  {{"s", {{0, 1}, {5, 10}, {20, 1000}}, false}}};
  const std::string svg = PlotSvg(plot);
  // 70..704 across, 292 up to 34; what is outside sticks to the end.
  EXPECT_THAT(svg, HasSubstr("70.0,292.0 387.0,163.0 704.0,34.0"));
  EXPECT_THAT(svg, HasSubstr(">100</text>"));
}

}  // namespace
}  // namespace stoker::loadtest
