#include "ctl/status_command.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/absl_view.h"
#include "base/status_macros.h"
#include "base/text_table.h"
#include "ctl/output.h"
#include "metrics/catalog.h"
#include "metrics/metrics_page.h"
#include "models/version_labels.h"
#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using Json = nlohmann::json;

// The value of the label `state` whose sample is 1.
std::string StateOf(const MetricsPage& page, const MetricDef& metric,
                    const Labels& labels) {
  for (const MetricsPage::Sample& sample :
       page.Samples(std::string(metric.name), labels)) {
    const auto state = sample.labels.find("state");
    if (sample.value == 1 && state != sample.labels.end()) {
      return state->second;
    }
  }
  return "";
}

double Sum(const MetricsPage& page, const MetricDef& metric,
           const Labels& labels) {
  return page.Sum(std::string(metric.name), labels);
}

struct Row {
  std::string model;  // "minilm:1"
  std::string bucket;
  std::string state;
  double compiled_requests = 0;
  double eager_requests = 0;
  double speedup = 0;  // 0: not measured
  double compile_seconds = 0;
  double saved_seconds = 0;
  double break_even_runs = 0;  // 0: never, or nothing to pay
};

Row ReadRow(const MetricsPage& page, const Labels& labels) {
  Row row;
  row.model = absl::StrCat(labels.at("model"), ":", labels.at("version"));
  row.bucket = labels.at("bucket");
  row.state = StateOf(page, metric::kBucketState, labels);
  row.compiled_requests =
      Sum(page, metric::kTierRequests, With(labels, "tier", "aot"));
  row.eager_requests =
      Sum(page, metric::kTierRequests, With(labels, "tier", "eager"));
  row.speedup = Sum(page, metric::kSpeedup, labels);
  row.compile_seconds = Sum(page, metric::kBucketCompileSeconds, labels);
  row.saved_seconds = Sum(page, metric::kSavedSeconds, labels);
  row.break_even_runs = Sum(page, metric::kBreakEvenRuns, labels);
  return row;
}

// "batch=8,tokens=16" as {8, 16}: in the order of sizes.
std::vector<int64_t> SizesIn(const std::string& bucket) {
  std::vector<int64_t> sizes;
  for (const absl::string_view part : absl::StrSplit(bucket, ',')) {
    int64_t size = 0;
    const std::pair<absl::string_view, absl::string_view> named =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (absl::SimpleAtoi(named.second, &size)) sizes.push_back(size);
  }
  return sizes;
}

std::string PaidBack(const Row& row) {
  if (row.break_even_runs == 0) return "";
  if (row.saved_seconds >= row.compile_seconds) return "yes";
  return absl::StrFormat("after %.0f runs", row.break_even_runs);
}

}  // namespace

absl::StatusOr<int> ShowStatus(const std::string& url, const std::string& model,
                               bool json) {
  ASSIGN_OR_RETURN(const MetricsPage page, FetchMetrics(url));
  Labels wanted;
  if (!model.empty()) wanted["model"] = model;
  std::vector<Row> rows;
  std::map<std::string, std::string> states;  // of the versions
  for (const MetricsPage::Sample& sample :
       page.Samples(std::string(metric::kModelState.name), wanted)) {
    if (sample.value != 1) continue;
    states[absl::StrCat(sample.labels.at("model"), ":",
                        sample.labels.at("version"))] =
        sample.labels.at("state");
  }
  if (states.empty() && !model.empty()) {
    return absl::NotFoundError(
        absl::StrCat(url, " knows no model '", model, "'"));
  }
  for (const MetricsPage::Sample& sample :
       page.Samples(std::string(metric::kBucketState.name), wanted)) {
    if (sample.value != 1) continue;
    Labels labels = sample.labels;
    labels.erase("state");
    rows.push_back(ReadRow(page, labels));
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
    return std::pair(a.model, SizesIn(a.bucket)) <
           std::pair(b.model, SizesIn(b.bucket));
  });
  if (json) {
    Json list = Json::array();
    for (const Row& row : rows) {
      list.push_back({{"model", row.model},
                      {"bucket", row.bucket},
                      {"state", row.state},
                      {"compiled_requests", row.compiled_requests},
                      {"eager_requests", row.eager_requests},
                      {"speedup", row.speedup},
                      {"compile_seconds", row.compile_seconds},
                      {"saved_seconds", row.saved_seconds},
                      {"break_even_runs", row.break_even_runs}});
    }
    PrintJson({{"versions", states}, {"buckets", std::move(list)}});
    return 0;
  }
  TextTable versions({"MODEL", "STATE"});
  for (const auto& [name, state] : states) versions.Add({name, state});
  TextTable table({"MODEL", "BUCKET", "STATE", "COMPILED", "EAGER", "SPEEDUP",
                   "COMPILE", "SAVED", "PAID BACK"});
  for (const Row& row : rows) {
    table.Add({row.model, row.bucket, row.state,
               absl::StrFormat("%.0f", row.compiled_requests),
               absl::StrFormat("%.0f", row.eager_requests),
               row.speedup > 0 ? absl::StrFormat("%.2f", row.speedup) : "",
               row.compile_seconds > 0 ? SecondsText(row.compile_seconds) : "",
               row.compile_seconds > 0 ? SecondsText(row.saved_seconds) : "",
               PaidBack(row)});
  }
  Print(versions.empty() ? "no model is there\n" : versions.Text());
  if (!table.empty()) Print(absl::StrCat("\n", table.Text()));
  return 0;
}

}  // namespace stoker
