#include "metrics/metrics_page.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/generator/server_figures.h"

namespace stoker::loadtest {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(MetricsPageTest, SumsSamplesThatCarryTheLabels) {
  const MetricsPage page = MetricsPage::Parse(
      "# HELP a_total words\n# TYPE a_total counter\n"
      "a_total{model=\"m\",tier=\"aot\"} 3\n"
      "a_total{model=\"m\",tier=\"eager\"} 4.5\n"
      "a_total{model=\"n\",tier=\"aot\"} 100 1700000000000\n"
      "b 7\n"
      "broken line here\n"
      "odd{text=\"a\\\"b,c=}\"} 2\n");
  EXPECT_EQ(page.Sum("a_total"), 107.5);
  EXPECT_EQ(page.Sum("a_total", {{"model", "m"}}), 7.5);
  EXPECT_EQ(page.Sum("a_total", {{"model", "m"}, {"tier", "aot"}}), 3);
  EXPECT_EQ(page.Sum("a_total", {{"model", "x"}}), 0);
  EXPECT_EQ(page.Sum("b"), 7);
  EXPECT_EQ(page.Sum("odd", {{"text", "a\"b,c=}"}}), 2);
  EXPECT_TRUE(page.Has("b"));
  EXPECT_FALSE(page.Has("a"));
}

TEST(MetricsPageTest, ReadsAHistogramsBuckets) {
  const MetricsPage page = MetricsPage::Parse(
      "s_bucket{model=\"m\",tier=\"a\",le=\"0.1\"} 1\n"
      "s_bucket{model=\"m\",tier=\"a\",le=\"+Inf\"} 3\n"
      "s_bucket{model=\"m\",tier=\"b\",le=\"0.1\"} 10\n"
      "s_bucket{model=\"m\",tier=\"b\",le=\"+Inf\"} 30\n");
  EXPECT_THAT(page.Buckets("s", {{"model", "m"}}),
              ElementsAre(Pair(0.1, 11), Pair(kInfinity, 33)));
}

TEST(MetricsPageTest, EstimatesQuantilesWithinABucket) {
  // 10 up to 1, 30 up to 2, none up to 4, 10 beyond.
  const std::map<double, double> buckets = {
      {1, 10}, {2, 40}, {4, 40}, {kInfinity, 50}};
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.1), 0.5);
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.2), 1);
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.5), 1.5);
  EXPECT_DOUBLE_EQ(*Quantile(buckets, 0.8), 2);
  EXPECT_EQ(*Quantile(buckets, 0.99), 4);  // the largest bound that is known
  EXPECT_EQ(*Quantile({{0.5, 0}, {kInfinity, 3}}, 0.5), 0.5);
  EXPECT_EQ(Quantile({}, 0.5), std::nullopt);
  EXPECT_EQ(Quantile({{1, 0}, {kInfinity, 0}}, 0.5), std::nullopt);
}

TEST(MetricsPageTest, SaysWhichUrlFailed) {
  EXPECT_EQ(HttpGet("https://a:1/", absl::Seconds(1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(HttpGet("http://host/metrics", absl::Seconds(1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  // Port 1 is nobody's.
  const auto page = HttpGet("http://127.0.0.1:1/metrics", absl::Seconds(1));
  EXPECT_EQ(page.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(page.status().message()),
              HasSubstr("http://127.0.0.1:1/metrics"));
}

ServerSnapshot Page(const std::string& text) {
  return {std::nullopt, MetricsPage::Parse(text)};
}

TEST(ServerFiguresTest, SplitsStokersMetrics) {
  const auto figures = FiguresBetween(
      Page("stoker_queue_seconds_sum{model=\"m\"} 1\n"
           "stoker_queue_seconds_count{model=\"m\"} 10\n"
           "stoker_queue_seconds_bucket{model=\"m\",le=\"0.1\"} 10\n"
           "stoker_queue_seconds_bucket{model=\"m\",le=\"0.2\"} 10\n"
           "stoker_queue_seconds_bucket{model=\"m\",le=\"+Inf\"} 10\n"
           "stoker_batch_rows_sum{model=\"m\"} 5\n"
           "stoker_batch_rows_count{model=\"m\"} 5\n"
           "stoker_batch_requests_sum{model=\"m\"} 5\n"
           "stoker_batch_useful_elements_total{model=\"m\"} 100\n"
           "stoker_batch_padded_elements_total{model=\"m\"} 100\n"),
      Page("stoker_queue_seconds_sum{model=\"m\"} 3\n"
           "stoker_queue_seconds_count{model=\"m\"} 30\n"
           "stoker_queue_seconds_bucket{model=\"m\",le=\"0.1\"} 20\n"
           "stoker_queue_seconds_bucket{model=\"m\",le=\"0.2\"} 30\n"
           "stoker_queue_seconds_bucket{model=\"m\",le=\"+Inf\"} 30\n"
           "stoker_batch_rows_sum{model=\"m\"} 45\n"
           "stoker_batch_rows_count{model=\"m\"} 15\n"
           "stoker_batch_requests_sum{model=\"m\"} 25\n"
           "stoker_batch_useful_elements_total{model=\"m\"} 400\n"
           "stoker_batch_padded_elements_total{model=\"m\"} 200\n"
           "stoker_batch_rows_count{model=\"other\"} 1000\n"),
      "m");
  EXPECT_NEAR(figures["queue_ms"]["mean"], 100, 1e-9);
  EXPECT_NEAR(figures["queue_ms"]["p50"], 100, 1e-9);
  EXPECT_NEAR(figures["queue_ms"]["p99"], 198, 1e-9);
  EXPECT_EQ(figures["batches"], 10);
  EXPECT_EQ(figures["rows_per_batch"], 4);
  EXPECT_EQ(figures["requests_per_batch"], 2);
  EXPECT_EQ(figures["padding_waste"], 0.25);
  EXPECT_EQ(figures.count("execute_ms"), 0);
}

TEST(ServerFiguresTest, SplitsTheProtocolsStatistics) {
  const auto at = [](uint64_t times) {
    ServerSnapshot snapshot;
    inference::ModelStatistics& all = snapshot.statistics.emplace();
    auto* stats = all.mutable_inference_stats();
    const auto set = [&](inference::StatisticDuration* to, uint64_t ms) {
      to->set_count(10 * times);
      to->set_ns(10 * times * ms * 1'000'000);
    };
    set(stats->mutable_success(), 20);
    set(stats->mutable_queue(), 5);
    set(stats->mutable_compute_input(), 1);
    set(stats->mutable_compute_infer(), 12);
    set(stats->mutable_compute_output(), 2);
    all.set_execution_count(4 * times);
    all.set_inference_count(16 * times);
    return snapshot;
  };
  const auto figures = FiguresBetween(at(1), at(3), "m");
  EXPECT_EQ(figures["requests"], 20);
  EXPECT_EQ(figures["request_ms"]["mean"], 20);
  EXPECT_EQ(figures["queue_ms"]["mean"], 5);
  EXPECT_EQ(figures["assemble_ms"]["mean"], 1);
  EXPECT_EQ(figures["execute_ms"]["mean"], 12);
  EXPECT_EQ(figures["scatter_ms"]["mean"], 2);
  EXPECT_EQ(figures["batches"], 8);
  EXPECT_EQ(figures["rows_per_batch"], 4);
}

TEST(ServerFiguresTest, IsEmptyForASilentServer) {
  EXPECT_TRUE(FiguresBetween({}, {}, "m").empty());
}

}  // namespace
}  // namespace stoker::loadtest
