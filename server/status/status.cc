#include "status/status.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "metrics/catalog.h"
#include "metrics/metrics_page.h"
#include "models/version_labels.h"

namespace stoker {
namespace {

constexpr absl::Duration kWindow = absl::Minutes(1);
constexpr absl::Duration kShortestWindow = absl::Seconds(1);

int64_t Count(const MetricSnapshot& metrics, const MetricDef& metric,
              const Labels& labels = {}) {
  return std::llround(metrics.Sum(metric.name, labels));
}

Labels LabelsOf(const VersionStatus& version) {
  return {{"model", version.model}, {"version", absl::StrCat(version.version)}};
}

ModelStatus ModelFrom(const VersionReport& report,
                      const MetricSnapshot& metrics) {
  const Labels labels = LabelsOf(report.status);
  ModelStatus model;
  model.model = absl::StrCat(report.status.model, ":", report.status.version);
  model.state = report.status.state;
  model.reason = report.status.reason;
  model.newest = report.status.newest;
  model.aliases = report.status.aliases;
  model.device = report.device;
  model.warmup = report.warmup;
  model.answered =
      Count(metrics, metric::kRequests, With(labels, "outcome", "ok"));
  model.failed = Count(metrics, metric::kRequests, labels) - model.answered;
  model.waiting = Count(metrics, metric::kQueueLength, labels);
  return model;
}

BucketFigures BucketFrom(const BucketStatus& bucket, const Labels& version,
                         const MetricSnapshot& metrics) {
  const Labels labels = With(version, "bucket", bucket.bucket);
  BucketFigures figures;
  figures.status = bucket;
  figures.compiled_requests =
      Count(metrics, metric::kTierRequests, With(labels, "tier", "aot")) +
      Count(metrics, metric::kTierRequests, With(labels, "tier", "dynamic")) +
      Count(metrics, metric::kTierRequests, With(labels, "tier", "graph"));
  figures.eager_requests =
      Count(metrics, metric::kTierRequests, With(labels, "tier", "eager"));
  figures.compile_seconds =
      metrics.Sum(metric::kBucketCompileSeconds.name, labels);
  figures.saved_seconds = metrics.Sum(metric::kSavedSeconds.name, labels);
  figures.break_even_runs = Count(metrics, metric::kBreakEvenRuns, labels);
  return figures;
}

CacheStatus CacheFrom(const MetricSnapshot& metrics) {
  const auto hits = [&](const char* layer) {
    return Count(metrics, metric::kCacheRequests,
                 {{"layer", layer}, {"result", "hit"}});
  };
  CacheStatus cache;
  cache.writable = metrics.Sum(metric::kCacheWritable.name) > 0;
  cache.entries = Count(metrics, metric::kCacheEntries);
  cache.bytes = Count(metrics, metric::kCacheBytes);
  cache.upper_hits = hits("upper");
  cache.lower_hits = hits("lower");
  cache.misses = Count(metrics, metric::kCacheRequests, {{"result", "miss"}});
  for (const MetricSnapshot::Series* series :
       metrics.Find(metric::kCacheRejections.name)) {
    cache.rejections[series->labels.at("reason")] +=
        std::llround(series->value);
  }
  cache.compile_seconds_saved = metrics.Sum(metric::kCompileSecondsSaved.name);
  return cache;
}

ServerStatus ServerFrom(const MetricSnapshot& metrics) {
  ServerStatus server;
  for (const MetricSnapshot::Series* build :
       metrics.Find(metric::kBuildInfo.name)) {
    server.version = build->labels.at("version");
    server.torch = build->labels.at("torch");
    server.march = build->labels.at("march");
  }
  return server;
}

}  // namespace

std::string TierOf(const BucketStatus& bucket) {
  const BucketSlot::Snapshot& slot = bucket.slot;
  if (slot.state == BucketState::kDynamic) return "dynamic";
  if (slot.state != BucketState::kCompiled) return "eager";
  if (bucket.dynamic) return "dynamic";
  return slot.graph_gain > 0 ? "graph" : "aot";
}

RecentRequests RecentSince(const std::map<double, double>& before,
                           std::map<double, double> now,
                           absl::Duration window) {
  const auto total = [](const std::map<double, double>& buckets) {
    return buckets.empty() ? 0 : buckets.rbegin()->second;
  };
  if (total(before) <= total(now)) {
    for (auto& [bound, count] : now) {
      const auto same = before.find(bound);
      if (same != before.end()) count -= same->second;
    }
  }
  RecentRequests recent;
  if (window > absl::ZeroDuration()) {
    recent.per_second = total(now) / absl::ToDoubleSeconds(window);
  }
  const auto quantile = [&](double share) -> std::optional<absl::Duration> {
    const std::optional<double> seconds = Quantile(now, share);
    if (!seconds.has_value()) return std::nullopt;
    return absl::Seconds(*seconds);
  };
  recent.p50 = quantile(0.5);
  recent.p99 = quantile(0.99);
  return recent;
}

StatusReader::StatusReader(const ModelManager& manager,
                           const MetricRegistry& metrics,
                           const RecentRefusals& refusals, Clock& clock,
                           MonotonicTime started)
    : manager_(manager),
      metrics_(metrics),
      refusals_(refusals),
      clock_(clock),
      started_(started),
      looks_({{started, {}}}) {}

Status StatusReader::Read() {
  const std::vector<VersionReport> versions = manager_.Report();
  const MetricSnapshot metrics = metrics_.Read();
  Status status;
  status.server = ServerFrom(metrics);
  status.server.time = clock_.WallNow();
  Look now{clock_.Now(), {}};
  status.server.uptime = now.time - started_;
  status.server.ready = manager_.ServerReady();
  for (const VersionReport& version : versions) {
    const Labels labels = LabelsOf(version.status);
    ModelStatus& model =
        status.models.emplace_back(ModelFrom(version, metrics));
    now.latency[model.model] =
        metrics.Buckets(metric::kRequestSeconds.name, labels);
    for (const BucketStatus& bucket : version.buckets) {
      model.buckets.push_back(BucketFrom(bucket, labels, metrics));
    }
  }
  const Look before = Remember(now);
  status.server.window = now.time - before.time;
  for (ModelStatus& model : status.models) {
    const auto earlier = before.latency.find(model.model);
    model.recent = RecentSince(
        earlier == before.latency.end() ? Histogram() : earlier->second,
        now.latency.at(model.model), status.server.window);
  }
  status.cache = CacheFrom(metrics);
  status.refusals = refusals_.Read();
  return status;
}

StatusReader::Look StatusReader::Remember(const Look& now) {
  absl::MutexLock lock(&mu_);
  while (looks_.size() > 1 && looks_[1].time <= now.time - kWindow) {
    looks_.pop_front();
  }
  Look before = looks_.front();
  if (now.time - looks_.back().time >= kShortestWindow) looks_.push_back(now);
  return before;
}

}  // namespace stoker
