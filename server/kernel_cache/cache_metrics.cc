#include "kernel_cache/cache_metrics.h"

#include <string>

#include "metrics/catalog.h"
#include "metrics/recent_refusals.h"

namespace stoker {
namespace {

void CountRequest(MetricRegistry& registry, const char* layer,
                  const char* result) {
  registry
      .Counter(metric::kCacheRequests, {{"layer", layer}, {"result", result}})
      .Add();
}

const char* LayerLabel(int layer) { return layer == 0 ? "upper" : "lower"; }

}  // namespace

void CacheMetrics::SetWritable(bool writable) {
  registry_.Gauge(metric::kCacheWritable).Set(writable ? 1 : 0);
}

void CacheMetrics::Hit(int layer, double compile_seconds_saved) {
  CountRequest(registry_, LayerLabel(layer), "hit");
  registry_.Counter(metric::kCompileSecondsSaved).Add(compile_seconds_saved);
}

void CacheMetrics::Damaged(int layer) {
  CountRequest(registry_, LayerLabel(layer), "damaged");
}

void CacheMetrics::Miss() { CountRequest(registry_, "", "miss"); }

void CacheMetrics::Committed(int64_t bytes) {
  CommitEnded("ok");
  registry_.Gauge(metric::kCacheEntries).Add(1);
  registry_.Gauge(metric::kCacheBytes).Add(static_cast<double>(bytes));
}

void CacheMetrics::CommitEnded(const char* result) {
  registry_.Counter(metric::kCacheCommits, {{"result", result}}).Add();
}

void CacheMetrics::Rejected(const ArtifactKey& key, std::string_view label,
                            std::string_view reason) {
  registry_.Counter(metric::kCacheRejections, {{"reason", std::string(label)}})
      .Add();
  if (refusals_ != nullptr) refusals_->Add("cache", key.Short(), label, reason);
}

void CacheMetrics::Evicted(std::string_view reason) {
  registry_.Counter(metric::kCacheEvictions, {{"reason", std::string(reason)}})
      .Add();
}

void CacheMetrics::SetUse(int64_t entries, int64_t bytes, int64_t other_bytes) {
  registry_.Gauge(metric::kCacheEntries).Set(static_cast<double>(entries));
  registry_.Gauge(metric::kCacheBytes).Set(static_cast<double>(bytes));
  registry_.Gauge(metric::kCacheOtherBytes)
      .Set(static_cast<double>(other_bytes));
}

}  // namespace stoker
