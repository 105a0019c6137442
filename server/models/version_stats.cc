#include "models/version_stats.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "metrics/catalog.h"
#include "metrics/outcome.h"
#include "models/version_labels.h"

namespace stoker {
namespace {

void Add(DurationStat& stat, absl::Duration duration) {
  ++stat.count;
  stat.ns += static_cast<uint64_t>(
      std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration)));
}

// Index in kFailureReasons. What a queue doesn't take or keep is UNAVAILABLE,
// or the client's deadline has passed.
size_t ReasonOf(const absl::Status& status, bool queued) {
  enum Reason : size_t { kRejected, kCanceled, kBackend, kOther };
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return kRejected;
    case absl::StatusCode::kCancelled:
      return kCanceled;
    default:
      return queued ? kBackend : kOther;
  }
}

}  // namespace

VersionStats::VersionStats(MetricSource& metrics, const Labels& labels,
                           const std::vector<std::string>& buckets,
                           std::vector<std::string_view> tiers)
    : metrics_(metrics),
      labels_(labels),
      ok_(metrics.Counter(metric::kRequests, With(labels, "outcome", "ok"))),
      buckets_(buckets),
      tiers_(std::move(tiers)),
      request_seconds_(metrics.Histogram(metric::kRequestSeconds, labels)) {
  for (const std::string_view tier : tiers_) {
    std::vector<Counter>& counters = requests_.emplace_back();
    const auto add = [&](const std::string& bucket) {
      counters.push_back(
          metrics.Counter(metric::kTierRequests,
                          With(With(labels, "bucket", bucket), "tier", tier)));
    };
    add("none");
    for (const std::string& bucket : buckets) add(bucket);
  }
}

void VersionStats::RecordSuccess(const InferResult& result, int64_t rows,
                                 absl::Duration total, absl::Time now) {
  ok_.Add();
  const auto bucket = static_cast<size_t>(result.bucket + 1);
  const auto tier = std::find(tiers_.begin(), tiers_.end(), result.tier);
  requests_.at(static_cast<size_t>(tier - tiers_.begin())).at(bucket).Add();
  request_seconds_.Observe(absl::ToDoubleSeconds(total));
  absl::MutexLock lock(&mu_);
  totals_.inference_count += static_cast<uint64_t>(rows);
  totals_.last_inference_ms = absl::ToUnixMillis(now);
  Add(totals_.success, total);
  Add(totals_.queue, result.queue);
  Add(totals_.compute_input, result.assemble);
  Add(totals_.compute_infer, result.run);
  Add(totals_.compute_output, result.split);
}

void VersionStats::RecordFailure(const absl::Status& status, bool queued,
                                 absl::Duration total) {
  metrics_
      .Counter(metric::kRequests,
               With(labels_, "outcome", OutcomeName(status.code())))
      .Add();
  request_seconds_.Observe(absl::ToDoubleSeconds(total));
  absl::MutexLock lock(&mu_);
  Add(totals_.fail, total);
  ++totals_.fail_by_reason[ReasonOf(status, queued)];
}

void VersionStats::RecordBatch(int64_t rows, absl::Duration assemble,
                               absl::Duration run, absl::Duration split) {
  absl::MutexLock lock(&mu_);
  ++totals_.execution_count;
  StatsSnapshot::Batch& batch = totals_.batches[static_cast<uint64_t>(rows)];
  Add(batch.compute_input, assemble);
  Add(batch.compute_infer, run);
  Add(batch.compute_output, split);
}

StatsSnapshot VersionStats::Snapshot() const {
  absl::MutexLock lock(&mu_);
  return totals_;
}

}  // namespace stoker
