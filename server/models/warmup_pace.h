// How many of a version's buckets are settled, how fast that goes, and when it
// will be over. Keeps the gauge of it.
//
// Thread-safe.
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/monotonic_time.h"
#include "metrics/metrics.h"
#include "models/version_report.h"

namespace stoker {

class WarmupPace {
 public:
  // Of `total` buckets; the clock outlives this object. `labels`: model,
  // version.
  WarmupPace(int total, const Labels& labels, Clock& clock,
             MetricSource& metrics);

  // From now on what is settled counts for the pace: what was opened from the
  // cache before did so in no time.
  void Begin() ABSL_LOCKS_EXCLUDED(mu_);
  // So many are settled by now.
  void Update(int settled) ABSL_LOCKS_EXCLUDED(mu_);

  WarmupProgress Read() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  const int total_;
  Clock& clock_;
  Gauge settled_gauge_;

  mutable absl::Mutex mu_;
  MonotonicTime start_ ABSL_GUARDED_BY(mu_) = MonotonicTime::InfiniteFuture();
  MonotonicTime last_ ABSL_GUARDED_BY(mu_) = MonotonicTime::InfiniteFuture();
  int settled_before_ ABSL_GUARDED_BY(mu_) = 0;
  int settled_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace stoker
