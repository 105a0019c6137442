// How long a run of each bucket takes, as measured on this machine: what the
// planner of batches weighs.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "tensor/shape_bucket.h"

namespace stoker {

class BucketCosts {
 public:
  explicit BucketCosts(absl::Span<const ShapeBucket> buckets);

  // One more run of the bucket. Estimates follow the last dozen runs; a run
  // that took far longer (the machine was busy) counts as twice the estimate.
  void Record(int bucket, absl::Duration run) ABSL_LOCKS_EXCLUDED(mu_);
  // What runs in the bucket has changed, and takes this long.
  void Reset(int bucket, absl::Duration run) ABSL_LOCKS_EXCLUDED(mu_);

  // Seconds of a run, by bucket. One that never ran counts as no dearer than
  // the dearest smaller one that did, so that it is tried; when none ever ran,
  // all cost the same, so that as few runs as possible are made.
  std::vector<double> Estimates() const ABSL_LOCKS_EXCLUDED(mu_);
  // Whether the bucket ran before and its runs take less than `limit`.
  bool Within(int bucket, absl::Duration limit) const ABSL_LOCKS_EXCLUDED(mu_);
  // Changes when an estimate has moved by a few per cent.
  uint64_t generation() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  struct Cost {
    double volume = 0;     // product of the bucket's sizes
    double seconds = 0;    // 0: never ran
    double published = 0;  // what the last generation saw
  };
  void Publish(Cost& cost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double EstimateLocked(const Cost& cost) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  std::vector<Cost> costs_ ABSL_GUARDED_BY(mu_);
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace stoker
