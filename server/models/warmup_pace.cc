#include "models/warmup_pace.h"

#include <algorithm>

#include "metrics/catalog.h"
#include "models/version_labels.h"

namespace stoker {

WarmupPace::WarmupPace(int total, const Labels& labels, Clock& clock,
                       MetricSource& metrics)
    : total_(total),
      clock_(clock),
      settled_gauge_(metrics.Gauge(metric::kWarmupBuckets,
                                   With(labels, "progress", "settled"))) {
  metrics.Gauge(metric::kWarmupBuckets, With(labels, "progress", "total"))
      .Set(total);
  settled_gauge_.Set(0);
}

void WarmupPace::Begin() {
  absl::MutexLock lock(&mu_);
  start_ = last_ = clock_.Now();
  settled_before_ = settled_;
}

void WarmupPace::Update(int settled) {
  settled_gauge_.Set(settled);
  absl::MutexLock lock(&mu_);
  if (settled != settled_) last_ = clock_.Now();
  settled_ = settled;
}

WarmupProgress WarmupPace::Read() const {
  absl::MutexLock lock(&mu_);
  WarmupProgress progress{settled_, total_, std::nullopt};
  const int done = settled_ - settled_before_;
  const int left = total_ - settled_;
  if (start_ == MonotonicTime::InfiniteFuture() || done <= 0 || left <= 0) {
    return progress;
  }
  const absl::Duration each = (last_ - start_) / done;
  progress.left =
      std::max(each * left - (clock_.Now() - last_), absl::Seconds(1));
  return progress;
}

}  // namespace stoker
