// Makes one version fast: opens what the kernel cache holds, has the rest
// compiled, and settles every bucket, with code of its own or without. A job
// with a beginning and an end, behind traffic once Load is through.
//
// Load, Run and Improve are called once each, in this order, on one
// thread, which they block; the other methods from any. When the version's
// `stop` is requested they return soon: what runs in a child process is killed,
// waits end, and of timing and checking no run begins any more. A run that has
// begun is waited for, and so is torch opening a file.
#pragma once

#include <atomic>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/monotonic_time.h"
#include "models/artifact_opener.h"
#include "models/bucket_compiles.h"
#include "models/bucket_promoter.h"
#include "models/candidate_check.h"
#include "models/graph_capture.h"
#include "models/version_parts.h"
#include "planning/evidence_store.h"

namespace stoker {

class Warmup {
 public:
  explicit Warmup(const VersionParts& version);

  // Maps the weights, opens what the cache holds and, where that leaves a
  // bucket without an executable, the eager form. After OK requests can be
  // served. This is the only step whose failure fails the version. CANCELLED
  // when stopped.
  absl::Status Load();
  // Settles every bucket that is left: compile, open, check, have a first look
  // at its speed, promote or stay eager. Returns when all are settled, or
  // stopped.
  void Run();
  // What nobody has to wait for, while requests leave the device alone: times
  // again what was only looked at, timed on another machine, or without a clear
  // outcome; then,
  // where dynamic forms come first, compiles buckets for themselves, as long as
  // that gains anything.
  void Improve();
  // Whether that is over. From any thread.
  bool improved() const { return improved_; }

  // Whether a bucket that Run left because it didn't pay back does by now. Once
  // all are settled.
  bool MorePaysBack() const { return compiles_.MorePaysBack(); }
  // What the compile of a bucket is doing.
  BucketCompiles::Phase PhaseOf(int bucket) const {
    return compiles_.PhaseOf(bucket);
  }

 private:
  using Look = CandidateCheck::Look;

  // The plan's steps: dynamic forms first, as whether a bucket's own code is
  // worth having depends on them.
  std::vector<const WarmupStep*> Steps(bool dynamic) const;
  // Settles those of the steps that the cache has, and a verdict on; adds those
  // that it hasn't.
  absl::Status SettleFromCache(absl::Span<const WarmupStep* const> steps,
                               std::vector<const WarmupStep*>& missing);
  // FAILED_PRECONDITION, with their names and keys, when the cache lacks
  // entries that `require_cache` insists on.
  absl::Status RequireCache(absl::Span<const WarmupStep* const> missing) const;
  // Settles the steps: from the cache, or by a compile.
  void SettleAll(absl::Span<const WarmupStep* const> steps, Look look);
  void RetimeDoubtful(MonotonicTime latest);
  void TryOwnCode(MonotonicTime latest);
  // Opens the eager form and runs it once on the smallest shape.
  absl::Status ProveEager();
  // Returns when the device has had nothing to do for a while, be it for this
  // model or another, at `latest`, or when stopped.
  void AwaitQuiet(MonotonicTime latest) const;
  // In a child process, where that was never done on this machine.
  absl::Status TryEagerInChild(const DimensionSizes& sizes);
  // FAILED_PRECONDITION when what model.yaml says of padding is wrong.
  absl::Status ProvePadding(Executable& eager);

  const VersionParts version_;
  // Of buckets that are left to dynamic forms at first.
  const std::vector<WarmupStep> own_code_;
  const ArtifactOpener opener_;
  const CandidateCheck check_;
  const EvidenceStore evidence_;
  BucketPromoter promoter_;
  BucketCompiles compiles_;
  GraphCapture graphs_;
  std::atomic<bool> improved_ = false;
};

}  // namespace stoker
