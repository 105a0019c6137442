// Which buckets a version asks the compiler for, in which order, and what comes
// of it: those that traffic asks for most first, all at once or, where
// model.yaml limits what compiling may cost, one after the other.
//
// Of the warm-up's thread, but for the methods that say otherwise. A compile
// that was asked for may outlive this object.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "models/bucket_promoter.h"
#include "models/compile_budget.h"
#include "models/version_parts.h"
#include "tensor/shape_bucket.h"

namespace stoker {

class BucketCompiles {
 public:
  // `promoter` outlives this object, as does what `version` refers to.
  BucketCompiles(const VersionParts& version, BucketPromoter& promoter);

  // What traffic asks for most comes first.
  std::vector<const WarmupStep*> InOrder(
      std::vector<const WarmupStep*> steps) const;
  // What the cache lacks; called when nothing is wanted any more.
  void Want(std::vector<const WarmupStep*> steps);
  // Submits all that may be compiled by now; what never may stays on the tier
  // below.
  void SubmitAllowed();
  // Steps that are compiled, with their entries; blocks until there are some,
  // or something else came of a compile, or the version is stopped.
  struct Compiled {
    const WarmupStep* step;
    CacheEntry entry;
  };
  std::vector<Compiled> Await();

  // Whether a bucket that was left because it didn't pay back does by now. From
  // any thread, once all buckets are settled.
  bool MorePaysBack() const;

  // What the compile of a bucket is doing, since when; empty before it said so.
  // From any thread.
  struct Phase {
    std::string name;
    MonotonicTime since = MonotonicTime::InfinitePast();
  };
  Phase PhaseOf(int bucket) const;

 private:
  struct Arrival {
    int bucket;
    absl::StatusOr<CacheEntry> entry;
  };
  // What the compiler's callbacks write. Shared with them, because a compile
  // may outlive the version that asked for it.
  struct Inbox {
    explicit Inbox(size_t buckets)
        : phases(buckets), began(buckets, MonotonicTime::InfinitePast()) {}
    absl::Mutex mu;
    bool stopping ABSL_GUARDED_BY(mu) = false;
    std::deque<Arrival> arrivals ABSL_GUARDED_BY(mu);
    std::vector<Phase> phases ABSL_GUARDED_BY(mu);  // by bucket
    // The compile's first phase, by bucket; infinitely long ago: none came.
    std::vector<MonotonicTime> began ABSL_GUARDED_BY(mu);
  };

  void Submit(const WarmupStep& step);
  // When a compile that is over began its work; infinitely long ago: another's
  // was waited for.
  static MonotonicTime BeganAt(Inbox& inbox, int bucket);
  // A compile failed: once more, or the bucket stays on the tier below.
  void Failed(const WarmupStep& step, const absl::Status& status);
  // By slot, why it isn't compiled; empty: it is. Reads every manifest of the
  // cache.
  std::vector<std::string> WhyNotPayingBack() const;

  const VersionParts version_;
  BucketPromoter& promoter_;
  const BucketTable table_;
  const bool limited_;

  std::deque<const WarmupStep*> wanted_;  // not asked for yet
  std::vector<int> attempts_;             // by bucket
  MonotonicTime submitted_ = MonotonicTime::InfinitePast();  // the last compile
  CompileBudget budget_;
  const std::shared_ptr<Inbox> inbox_;
};

}  // namespace stoker
