// How long a run of each bucket takes, as measured on this machine: what the
// planner of batches weighs.
//
// An estimate is the median of the last runs, so that what a busy machine does
// to a few of them is not believed. Of runs that end within kSpell of each
// other only the quickest counts: another process that has the core for a
// moment holds up all of them. And it is forgotten: a bucket that seemed dear
// is not chosen, and would never be found to be cheap again. One that hasn't
// run for kForget counts as quick as its quickest runs were, and as no dearer
// than a larger one ("optimism in the face of uncertainty": Lai and Robbins,
// 1985), so that it is tried; the next two runs that are slow correct that. Nor
// is a bucket dearer than a larger one by its first run alone, which finds
// caches and allocators cold.
//
// Thread-safe. `now`: of the batcher's clock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
#include "tensor/shape_bucket.h"

namespace stoker {

class BucketCosts {
 public:
  static constexpr absl::Duration kForget = absl::Seconds(10);
  // Longer than a scheduler's time slice.
  static constexpr absl::Duration kSpell = absl::Milliseconds(5);

  explicit BucketCosts(absl::Span<const ShapeBucket> buckets);

  // One more run of the bucket, which has ended now.
  void Record(int bucket, absl::Duration run, MonotonicTime now)
      ABSL_LOCKS_EXCLUDED(mu_);
  // What runs in the bucket has changed, and takes this long.
  void Reset(int bucket, absl::Duration run, MonotonicTime now)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Seconds of a run, by bucket. One that never ran counts as no dearer than
  // the dearest smaller one that did, so that it is tried; when none ever ran,
  // all cost the same, so that as few runs as possible are made.
  std::vector<double> Estimates() const ABSL_LOCKS_EXCLUDED(mu_);
  // Whether the bucket ran before and its runs take less than `limit`, and the
  // latest one less than ten times that: a caller that lends its thread for a
  // short run must not find out twice that it is a long one, and one that was
  // held up for a moment is none.
  bool Within(int bucket, absl::Duration limit) const ABSL_LOCKS_EXCLUDED(mu_);
  // Forgets what is due. Changes when an estimate has moved by a few per cent.
  uint64_t Generation(MonotonicTime now) ABSL_LOCKS_EXCLUDED(mu_);

 private:
  static constexpr size_t kRuns = 8;

  struct Cost {
    double volume = 0;               // product of the bucket's sizes
    std::array<double, kRuns> runs;  // of the last spells, in seconds; a ring
    size_t count = 0;                // of them
    size_t next = 0;                 // where the next one goes
    MonotonicTime last = MonotonicTime::InfinitePast();         // run's end
    MonotonicTime spell_began = MonotonicTime::InfinitePast();  // the newest's
    double latest = 0;  // run, in seconds, whether it counts or not
    bool forgotten = false;
    double seconds = 0;    // the estimate; 0: never ran
    double published = 0;  // what the last generation saw
  };
  static void Add(Cost& cost, double seconds, MonotonicTime now);
  // The run that so large a part of the last ones is quicker than, or the one
  // below: 0.5 for the lower median.
  static double Quantile(const Cost& cost, double part);
  double LeastOfLarger(const Cost& cost) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void Publish(Cost& cost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  double EstimateLocked(const Cost& cost) const ABSL_SHARED_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  // When the next estimate is to be forgotten, or earlier.
  MonotonicTime forget_at_ ABSL_GUARDED_BY(mu_) =
      MonotonicTime::InfiniteFuture();
  std::vector<Cost> costs_ ABSL_GUARDED_BY(mu_);
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace stoker
