// One bucket's way from a cache entry to a settled slot: open, run once, check
// against eager, compare with the dynamic form that takes the same sizes, then
// promote it or leave it to the tier below. What was found out before is read,
// not found out again. Never fails the version.
//
// Of the warm-up's thread; blocks. Returns without having settled anything when
// the version is stopped.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernel_cache/entry_store.h"
#include "models/artifact_opener.h"
#include "models/candidate_check.h"
#include "models/int8_layers.h"
#include "models/version_parts.h"
#include "planning/evidence_store.h"
#include "promotion/verdict.h"

namespace stoker {

class BucketPromoter {
 public:
  // All but `version` outlive this object.
  BucketPromoter(const VersionParts& version, const ArtifactOpener& opener,
                 const CandidateCheck& check, const EvidenceStore& evidence)
      : version_(version),
        opener_(opener),
        check_(check),
        evidence_(evidence),
        int8_layers_(version) {}

  // Settles a bucket that needs no code of its own now, because a dynamic form
  // takes it, and nobody asked for more or nothing is known to be faster: false
  // where that isn't so.
  bool LeaveUnwanted(const WarmupStep& step);
  // Settles a bucket that the compiler is known to refuse: false where it
  // isn't.
  bool LeaveRefused(const WarmupStep& step);
  // The compiler has refused it; that is kept for the next start.
  void KeepRefusal(const WarmupStep& step, const std::string& why);
  // Whether Settle would only have to open the entry, and measure nothing.
  bool IsKnown(const WarmupStep& step, const CacheEntry& entry) const;
  // `tried`: ArtifactOpener::TryInChild's. `look`: at the speed of what nobody
  // timed yet.
  void Settle(const WarmupStep& step, const CacheEntry& entry,
              const absl::Status& tried, CandidateCheck::Look look);
  // Whether the bucket was timed on another machine, or without a clear
  // outcome.
  bool IsDoubtful(const WarmupStep& step) const;
  // Times it again, and promotes or demotes by it.
  void Retime(const WarmupStep& step);

 private:
  using Executables = std::vector<std::shared_ptr<Executable>>;

  // The bucket stays on the tier below, with a warning.
  void Refuse(const WarmupStep& step, FallbackReason reason,
              std::string_view why);
  void CountPromotion(std::string_view outcome);
  // What serves, or what the cache has for the bucket.
  std::optional<ArtifactId> ArtifactOf(const WarmupStep& step) const;
  std::optional<Verdict> KnownVerdict(const WarmupStep& step) const;
  // Gathers the evidence that is missing on an opened candidate, and keeps it.
  absl::StatusOr<Verdict> Check(const WarmupStep& step, const CacheEntry& entry,
                                Executable& candidate,
                                CandidateCheck::Look look);
  // Of a version whose linear layers may compute with eight-bit integers, with
  // as many of them as are right.
  absl::StatusOr<CandidateCheck::Evidence> CheckParity(
      const WarmupStep& step, const ArtifactId& artifact, Executable& eager,
      Executable& candidate, CandidateCheck::Proved proved);
  // Has layers be as they were for that parity, which is the artifact's. False:
  // they can't, and it is to be found out again.
  bool Restore(const ArtifactId& artifact, const Parity& parity);
  absl::Status TryRetime(const WarmupStep& step, const ArtifactId& artifact,
                         const Verdict& known);
  // The slot of the dynamic form that serves a bucket without code of its own;
  // -1: eager does.
  int DynamicBehind(const WarmupStep& step) const;
  // Whether the verdict says what BeatsDynamic would find out.
  bool IsCompared(const WarmupStep& step, const Verdict& verdict) const;
  // Whether the bucket's own code is worth having beside the dynamic form that
  // takes its sizes; kept with the profit, beside the artifact.
  absl::StatusOr<bool> BeatsDynamic(const WarmupStep& step,
                                    const ArtifactId& artifact,
                                    Executable& candidate, Verdict& verdict);
  // Settles a bucket whose own code is no faster than the dynamic form.
  void LeaveToDynamic(const WarmupStep& step, const Verdict& verdict);
  void Promote(const WarmupStep& step, const CacheEntry& entry,
               ArtifactOpener::Opened opened, const Verdict& verdict);

  const VersionParts version_;
  const ArtifactOpener& opener_;
  const CandidateCheck& check_;
  const EvidenceStore& evidence_;
  Int8Layers int8_layers_;
};

}  // namespace stoker
