// What stands for a version that rests: it is not in memory, and served all the
// same. Its requests wait here, each within its own deadline, while it is
// loaded again, which the first of them has done; all of them share that load.
//
// The same object through all rests of a version: whoever found it while the
// version rested may still submit when it serves, or rests again.
//
// Thread-safe. Submit and SweepCancelled are for requests, the others for the
// lifecycle thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "batching/infer_task.h"
#include "metrics/metrics.h"
#include "models/version_stats.h"
#include "repository/model_spec.h"
#include "tensor/shape_bucket.h"

namespace stoker {

class ModelVersion;

class RestingVersion {
 public:
  // Of a version that was loaded: its figures go on. `series`: of these.
  // `wake` is called for the lifecycle thread to look at what waits; it must
  // not block, and may be called at any time.
  RestingVersion(std::shared_ptr<const ModelSpec> spec,
                 std::shared_ptr<VersionStats> stats,
                 std::shared_ptr<MetricScope> series, Clock& clock,
                 std::function<void()> wake);
  ~RestingVersion();

  const ModelSpec& spec() const { return *spec_; }
  const std::shared_ptr<const ModelSpec>& shared_spec() const { return spec_; }
  VersionStats& stats() const { return *stats_; }
  const std::shared_ptr<VersionStats>& shared_stats() const { return stats_; }
  const std::shared_ptr<MetricScope>& series() const { return series_; }

  // As ModelHandle's. What the version itself would refuse is refused at once,
  // and wakes nobody.
  absl::Status Submit(std::unique_ptr<InferTask>& task)
      ABSL_LOCKS_EXCLUDED(mu_);
  void SweepCancelled() ABSL_LOCKS_EXCLUDED(mu_);

  // Requests wait from now on.
  void Rest() ABSL_LOCKS_EXCLUDED(mu_);
  // It serves as `version`, which gets what waits.
  void Serve(const std::shared_ptr<ModelVersion>& version)
      ABSL_LOCKS_EXCLUDED(mu_);
  // It can't be had: what waits ends with `why`, and what comes is refused with
  // it, until Rest or Serve.
  void Fail(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mu_);
  bool any_wait() const ABSL_LOCKS_EXCLUDED(mu_);
  // Ends what was cancelled or has waited too long; returns when the next has.
  MonotonicTime EndExpired() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Waiting {
    std::unique_ptr<InferTask> task;
    MonotonicTime since;
  };
  using Ended = std::vector<std::pair<Waiting, absl::Status>>;
  // Those of `waiting_` that are over.
  Ended TakeExpiredLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  static void End(const Ended& ended);

  const std::shared_ptr<const ModelSpec> spec_;
  const std::shared_ptr<MetricScope> series_;  // outlives what it counts
  const std::shared_ptr<VersionStats> stats_;
  const BucketTable table_;
  Clock& clock_;
  const std::function<void()> wake_;
  Histogram waited_;

  mutable absl::Mutex mu_;
  std::vector<Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  std::weak_ptr<ModelVersion> serving_ ABSL_GUARDED_BY(mu_);
  absl::Status failed_ ABSL_GUARDED_BY(mu_);
};

}  // namespace stoker
