#include "status/triton_metrics.h"

#include "gtest/gtest.h"
#include "metrics/metrics_page.h"

namespace stoker {
namespace {

TritonFigures Some(const std::string& model, int64_t version) {
  TritonFigures figures{.model = model, .version = version};
  figures.stats.inference_count = 7;
  figures.stats.execution_count = 2;
  figures.stats.success = {5, 123'456'789};
  figures.stats.queue = {5, 999};
  figures.stats.compute_input = {5, 1'000};
  figures.stats.compute_infer = {5, 100'000'000};
  figures.stats.compute_output = {5, 2'500};
  figures.stats.fail = {6, 1};
  figures.stats.fail_by_reason = {1, 2, 0, 3};
  figures.pending = 4;
  return figures;
}

TEST(TritonMetricsTest, EachFigureHasItsName) {
  const MetricsPage page =
      MetricsPage::Parse(TritonMetrics({Some("mlp", 1), Some("mlp", 2)}));
  const std::map<std::string, std::string> labels = {{"model", "mlp"},
                                                     {"version", "2"}};
  const std::pair<const char*, double> expected[] = {
      {"nv_inference_request_success", 5},
      {"nv_inference_request_failure", 6},
      {"nv_inference_count", 7},
      {"nv_inference_exec_count", 2},
      {"nv_inference_request_duration_us", 123'456},
      {"nv_inference_queue_duration_us", 0},
      {"nv_inference_compute_input_duration_us", 1},
      {"nv_inference_compute_infer_duration_us", 100'000},
      {"nv_inference_compute_output_duration_us", 2},
      {"nv_inference_pending_request_count", 4},
  };
  for (const auto& [name, value] : expected) {
    EXPECT_TRUE(page.Has(name)) << name;
    EXPECT_EQ(page.Sum(name, labels), value) << name;
    EXPECT_EQ(page.Sum(name), 2 * value) << name;
  }
}

TEST(TritonMetricsTest, EveryReasonIsThereFromTheStart) {
  const MetricsPage page = MetricsPage::Parse(TritonMetrics({Some("mlp", 1)}));
  const auto failures = page.Samples("nv_inference_request_failure");
  ASSERT_EQ(failures.size(), 4u);
  const std::pair<const char*, double> expected[] = {
      {"REJECTED", 1}, {"CANCELED", 2}, {"BACKEND", 0}, {"OTHER", 3}};
  for (const auto& [reason, value] : expected) {
    EXPECT_EQ(page.Sum("nv_inference_request_failure", {{"reason", reason}}),
              value)
        << reason;
  }
}

TEST(TritonMetricsTest, WithoutVersionsThereIsNothing) {
  EXPECT_EQ(TritonMetrics({}), "");
}

}  // namespace
}  // namespace stoker
