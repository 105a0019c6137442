#include "status/triton_metrics.h"

#include <functional>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/absl_view.h"
#include "metrics/catalog.h"

namespace stoker {
namespace {

constexpr MetricDef kSuccess{
    "nv_inference_request_success", MetricKind::kCounter, "model,version",
    "Number of successful inference requests, all batch sizes."};
constexpr MetricDef kFailure{
    "nv_inference_request_failure", MetricKind::kCounter,
    "model,version,reason",
    "Number of failed inference requests, all batch sizes, by reason: REJECTED "
    "(the queue was full or too slow), CANCELED (by the client), BACKEND (in "
    "its run), OTHER."};
constexpr MetricDef kCount{
    "nv_inference_count", MetricKind::kCounter, "model,version",
    "Number of inferences performed: the rows of the requests answered."};
constexpr MetricDef kExecutions{"nv_inference_exec_count", MetricKind::kCounter,
                                "model,version",
                                "Number of model executions performed."};
constexpr MetricDef kRequestTime{
    "nv_inference_request_duration_us", MetricKind::kCounter, "model,version",
    "Cumulative inference request duration in microseconds."};
constexpr MetricDef kQueueTime{
    "nv_inference_queue_duration_us", MetricKind::kCounter, "model,version",
    "Cumulative inference queuing duration in microseconds."};
constexpr MetricDef kInputTime{
    "nv_inference_compute_input_duration_us", MetricKind::kCounter,
    "model,version", "Cumulative compute input duration in microseconds."};
constexpr MetricDef kInferTime{
    "nv_inference_compute_infer_duration_us", MetricKind::kCounter,
    "model,version", "Cumulative compute inference duration in microseconds."};
constexpr MetricDef kOutputTime{
    "nv_inference_compute_output_duration_us", MetricKind::kCounter,
    "model,version",
    "Cumulative inference compute output duration in "
    "microseconds."};
constexpr MetricDef kPending{
    "nv_inference_pending_request_count", MetricKind::kGauge, "model,version",
    "Instantaneous number of pending requests awaiting execution per-model."};

// Names of models need no escaping: the repository lets in none that would.
void AddLine(const MetricDef& def, const TritonFigures& version,
             std::string_view more, const absl::AlphaNum& value,
             std::string& page) {
  absl::StrAppend(&page, Absl(def.name), "{model=\"", version.model,
                  "\",version=\"", version.version, "\"", Absl(more));
  absl::StrAppend(&page, "} ", value, "\n");
}

void AddHead(const MetricDef& def, std::string& page) {
  absl::StrAppend(&page, "# HELP ", Absl(def.name), " ", Absl(def.help), "\n");
  absl::StrAppend(&page, "# TYPE ", Absl(def.name),
                  def.kind == MetricKind::kGauge ? " gauge\n" : " counter\n");
}

uint64_t Microseconds(const DurationStat& stat) {
  constexpr uint64_t kNanoseconds = 1000;
  return stat.ns / kNanoseconds;
}

using Value = uint64_t (*)(const StatsSnapshot& stats);

constexpr std::pair<const MetricDef*, Value> kTotals[] = {
    {&kSuccess, [](const StatsSnapshot& s) { return s.success.count; }},
    {&kCount, [](const StatsSnapshot& s) { return s.inference_count; }},
    {&kExecutions, [](const StatsSnapshot& s) { return s.execution_count; }},
    {&kRequestTime,
     [](const StatsSnapshot& s) { return Microseconds(s.success); }},
    {&kQueueTime, [](const StatsSnapshot& s) { return Microseconds(s.queue); }},
    {&kInputTime,
     [](const StatsSnapshot& s) { return Microseconds(s.compute_input); }},
    {&kInferTime,
     [](const StatsSnapshot& s) { return Microseconds(s.compute_infer); }},
    {&kOutputTime,
     [](const StatsSnapshot& s) { return Microseconds(s.compute_output); }},
};

}  // namespace

std::vector<TritonFigures> ReadTritonFigures(const ModelManager& manager,
                                             const MetricRegistry& metrics) {
  const MetricSnapshot counted = metrics.Read();
  std::vector<TritonFigures> versions;
  for (const VersionStatus& status : manager.Index()) {
    if (!status.ready()) continue;
    const absl::StatusOr<ModelHandle> handle =
        manager.Acquire(status.model, {.number = status.version});
    if (!handle.ok()) continue;  // unloaded since
    versions.push_back(
        {status.model, status.version, handle->stats().Snapshot(),
         counted.Sum(metric::kQueueLength.name,
                     {{"model", status.model},
                      {"version", absl::StrCat(status.version)}})});
  }
  return versions;
}

std::string TritonMetrics(absl::Span<const TritonFigures> versions) {
  std::string page;
  if (versions.empty()) return page;
  for (const auto& [def, value] : kTotals) {
    AddHead(*def, page);
    for (const TritonFigures& version : versions) {
      AddLine(*def, version, "", value(version.stats), page);
    }
  }
  AddHead(kFailure, page);
  for (const TritonFigures& version : versions) {
    for (size_t i = 0; i < kFailureReasons.size(); ++i) {
      AddLine(kFailure, version,
              absl::StrCat(",reason=\"", Absl(kFailureReasons[i]), "\""),
              version.stats.fail_by_reason[i], page);
    }
  }
  AddHead(kPending, page);
  for (const TritonFigures& version : versions) {
    AddLine(kPending, version, "", version.pending, page);
  }
  return page;
}

}  // namespace stoker
