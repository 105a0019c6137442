#include "models/bucket_promoter.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "models/padded_run.h"
#include "models/version_labels.h"

namespace stoker {
namespace {

// Whether an artifact that doesn't open is to blame itself, and not the host or
// its GPU, which another time may have room for it, or be there again.
bool IsItsOwnFault(const absl::Status& status) {
  return !absl::IsFailedPrecondition(status) &&
         !absl::IsResourceExhausted(status) && !absl::IsUnavailable(status);
}

// The recorded requests that this version can take: another one may have had
// other inputs.
std::vector<CandidateCheck::Recorded> RecordedRequests(
    const ModelSpec& spec, const RequestSamples* samples) {
  std::vector<CandidateCheck::Recorded> requests;
  if (samples == nullptr) return requests;
  for (SampledRequest& sample : samples->Read()) {
    CandidateCheck::Recorded request{std::move(sample.sizes), {}};
    bool possible = request.sizes.size() == spec.dimensions.size() &&
                    sample.inputs.size() == spec.inputs.size();
    for (const InputSpec& input : spec.inputs) {
      const auto found = sample.inputs.find(input.name);
      possible = possible && found != sample.inputs.end() &&
                 found->second.dtype == input.dtype &&
                 found->second.shape == ShapeOf(input, request.sizes);
      if (!possible) break;
      request.inputs.push_back(found->second);
    }
    if (possible) requests.push_back(std::move(request));
  }
  return requests;
}

// The artifact that a dynamic form serves with; empty when it was lost.
std::string ServedBy(const ExecutableTiers& tiers, int form) {
  const std::optional<ArtifactId> artifact = tiers.slot(form).Read().artifact;
  return artifact.has_value() ? artifact->manifest_sha256 : "";
}

}  // namespace

void BucketPromoter::CountPromotion(std::string_view outcome) {
  version_.deps.metrics
      ->Counter(metric::kPromotions,
                With(VersionLabels(version_.spec), "outcome", outcome))
      .Add();
}

void BucketPromoter::Refuse(const WarmupStep& step, FallbackReason reason,
                            std::string_view why) {
  CountPromotion(FallbackReasonName(reason));
  version_.tiers.FallBack(step.bucket, reason, why);
}

std::optional<ArtifactId> BucketPromoter::ArtifactOf(
    const WarmupStep& step) const {
  const BucketSlot::Snapshot slot = version_.tiers.slot(step.bucket).Read();
  if (slot.artifact.has_value()) return slot.artifact;
  return version_.deps.cache->entries().Identify(step.request.key);
}

std::optional<Verdict> BucketPromoter::KnownVerdict(
    const WarmupStep& step) const {
  const std::optional<ArtifactId> artifact = ArtifactOf(step);
  return artifact.has_value() ? evidence_.ReadVerdict(*artifact) : std::nullopt;
}

bool BucketPromoter::LeaveUnwanted(const WarmupStep& step) {
  if (step.wanted || DynamicBehind(step) < 0) return false;
  if (version_.spec.compile.dynamic == DynamicForms::kInstead) {
    version_.tiers.Demote(step.bucket, FallbackReason::kDynamicOnly,
                          "model.yaml says 'dynamic: only'");
    return true;
  }
  const std::optional<Verdict> verdict = KnownVerdict(step);
  if (!verdict.has_value() || !verdict->promote() ||
      !IsCompared(step, *verdict)) {
    version_.tiers.Demote(step.bucket, FallbackReason::kDynamicUntried,
                          "the form serves it; code of its own was not tried");
    return true;
  }
  if (verdict->profit.over_dynamic->faster) return false;
  LeaveToDynamic(step, *verdict);
  return true;
}

bool BucketPromoter::LeaveRefused(const WarmupStep& step) {
  const std::optional<std::string> why =
      evidence_.ReadRefusal(step.request.key);
  if (!why.has_value()) return false;
  version_.tiers.FallBack(step.bucket, FallbackReason::kRefused, *why);
  return true;
}

void BucketPromoter::KeepRefusal(const WarmupStep& step,
                                 const std::string& why) {
  evidence_.WriteRefusal(step.request.key, why);
}

bool BucketPromoter::IsKnown(const WarmupStep& step,
                             const CacheEntry& entry) const {
  if (!version_.deps.verify_promotions) return true;
  const std::optional<Verdict> verdict = evidence_.ReadVerdict(entry.id());
  return verdict.has_value() && IsCompared(step, *verdict);
}

void BucketPromoter::Settle(const WarmupStep& step, const CacheEntry& entry,
                            const absl::Status& tried,
                            CandidateCheck::Look look) {
  const bool verify = version_.deps.verify_promotions;
  BucketSlot& slot = version_.tiers.slot(step.bucket);
  std::optional<Verdict> known = evidence_.ReadVerdict(entry.id());
  if (known.has_value() && !Restore(entry.id(), known->parity)) known.reset();
  if (verify && known.has_value() && !known->promote()) {
    Refuse(step, ReasonOfRefusal(known->refusal()), known->reason());
    return;
  }
  slot.SetState(BucketState::kOpening);
  absl::StatusOr<ArtifactOpener::Opened> opened =
      opener_.Open(step, entry, tried);
  if (version_.stopping()) return;
  if (const absl::Status& status = opened.status(); !status.ok()) {
    if (IsItsOwnFault(status)) {
      version_.deps.cache->entries().Quarantine(entry, Std(status.message()));
    }
    Refuse(step,
           absl::IsResourceExhausted(status) ? FallbackReason::kMemory
                                             : FallbackReason::kOpen,
           Std(status.message()));
    return;
  }
  Verdict verdict = known.value_or(Verdict{});
  if (verify && !known.has_value()) {
    slot.SetState(BucketState::kChecking);
    absl::StatusOr<Verdict> checked =
        Check(step, entry, *opened->executables.front(), look);
    if (version_.stopping()) return;
    if (!checked.ok()) {
      Refuse(step,
             absl::IsResourceExhausted(checked.status())
                 ? FallbackReason::kMemory
                 : FallbackReason::kUnjudged,
             absl::StrCat("not checked yet, the next start tries again: ",
                          checked.status().message()));
      return;
    }
    verdict = *std::move(checked);
    if (!verdict.promote()) {
      Refuse(step, ReasonOfRefusal(verdict.refusal()), verdict.reason());
      return;
    }
  }
  if (verify) {
    const absl::StatusOr<bool> worth =
        BeatsDynamic(step, entry.id(), *opened->executables.front(), verdict);
    if (version_.stopping()) return;
    if (worth.ok() && !*worth) {
      LeaveToDynamic(step, verdict);
      return;
    }
  }
  Promote(step, entry, *std::move(opened), verdict);
}

absl::StatusOr<Verdict> BucketPromoter::Check(const WarmupStep& step,
                                              const CacheEntry& entry,
                                              Executable& candidate,
                                              CandidateCheck::Look look) {
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> eager, version_.tiers.Eager());
  const ArtifactId artifact = entry.id();
  // Which nobody measures of an artifact that isn't right: where there is one
  // and no parity, that was found with other weights.
  std::optional<Profit> known_profit = evidence_.ReadProfit(artifact);
  Verdict verdict;
  std::optional<Parity> known = evidence_.ReadParity(artifact);
  if (known.has_value() && Restore(artifact, *known)) {
    verdict.parity = *std::move(known);
  } else {
    ASSIGN_OR_RETURN(CandidateCheck::Evidence evidence,
                     CheckParity(step, artifact, *eager, candidate,
                                 known_profit.has_value()
                                     ? CandidateCheck::Proved::kCode
                                     : CandidateCheck::Proved::kNothing));
    if (!evidence.reproducer.empty()) {
      evidence_.WriteReproducer(artifact, evidence.reproducer);
    }
    evidence_.WriteParity(artifact, evidence.parity);
    verdict.parity = std::move(evidence.parity);
  }
  if (!verdict.parity.equal) return verdict;
  // The same code with other weights takes as long.
  if (known_profit.has_value()) {
    verdict.profit = *std::move(known_profit);
  } else {
    ASSIGN_OR_RETURN(
        verdict.profit,
        check_.Measure(*eager, candidate, step.sizes, entry.bytes, look));
    evidence_.WriteProfit(artifact, verdict.profit);
  }
  return verdict;
}

absl::StatusOr<CandidateCheck::Evidence> BucketPromoter::CheckParity(
    const WarmupStep& step, const ArtifactId& artifact, Executable& eager,
    Executable& candidate, CandidateCheck::Proved proved) {
  const std::vector<CandidateCheck::Recorded> recorded =
      RecordedRequests(version_.spec, version_.deps.samples.get());
  if (version_.spec.compile.precision != ComputePrecision::kInt8) {
    return check_.CheckParity(eager, candidate, step.sizes, recorded, proved);
  }
  // What sizes show of the code, whatever its weights, says nothing of these.
  ASSIGN_OR_RETURN(CandidateCheck::Evidence evidence,
                   int8_layers_.Settle(candidate, step.sizes, recorded, [&] {
                     return check_.CheckParity(eager, candidate, step.sizes,
                                               recorded);
                   }));
  evidence_.WriteInt8Factors(artifact, int8_layers_.factors());
  return evidence;
}

bool BucketPromoter::Restore(const ArtifactId& artifact, const Parity& parity) {
  return version_.spec.compile.precision != ComputePrecision::kInt8 ||
         !parity.equal ||
         int8_layers_.Restore(parity, evidence_.ReadInt8Factors(artifact));
}

int BucketPromoter::DynamicBehind(const WarmupStep& step) const {
  if (step.dynamic()) return -1;
  return version_.tiers.DynamicFor(0,
                                   ShapesOf(version_.spec, step.sizes.sizes));
}

bool BucketPromoter::IsCompared(const WarmupStep& step,
                                const Verdict& verdict) const {
  const int dynamic = DynamicBehind(step);
  return dynamic < 0 || !verdict.promote() ||
         (verdict.profit.over_dynamic.has_value() &&
          verdict.profit.over_dynamic->artifact ==
              ServedBy(version_.tiers, dynamic));
}

absl::StatusOr<bool> BucketPromoter::BeatsDynamic(const WarmupStep& step,
                                                  const ArtifactId& artifact,
                                                  Executable& candidate,
                                                  Verdict& verdict) {
  const int index = DynamicBehind(step);
  if (index < 0) return true;
  const BucketSlot& slot = version_.tiers.slot(index);
  const std::shared_ptr<Executable> dynamic = slot.executable(0);
  if (dynamic == nullptr) return true;  // lost meanwhile
  if (!IsCompared(step, verdict)) {
    ASSIGN_OR_RETURN(verdict.profit.over_dynamic,
                     check_.Compare(*dynamic, candidate, step.sizes));
    verdict.profit.over_dynamic->artifact = ServedBy(version_.tiers, index);
    evidence_.WriteProfit(artifact, verdict.profit);
  }
  return verdict.profit.over_dynamic->faster;
}

void BucketPromoter::LeaveToDynamic(const WarmupStep& step,
                                    const Verdict& verdict) {
  const std::string why = absl::StrFormat(
      "%.2f times as fast as the dynamic form, which serves it without a "
      "package more",
      verdict.profit.over_dynamic->speedup);
  CountPromotion(FallbackReasonName(FallbackReason::kDynamicTie));
  log::Info("{} {}: left to the dynamic form: {}", version_.spec.Label(),
            step.name, why);
  version_.tiers.Demote(step.bucket, FallbackReason::kDynamicTie, why);
  // Eager's runs until now say nothing of the dynamic form's.
  if (verdict.profit.fastest_seconds > 0) {
    version_.batcher.ResetCost(step.bucket,
                               absl::Seconds(verdict.profit.fastest_seconds));
  }
}

void BucketPromoter::Promote(const WarmupStep& step, const CacheEntry& entry,
                             ArtifactOpener::Opened opened,
                             const Verdict& verdict) {
  version_.tiers.Promote(step.bucket, std::move(opened.executables), verdict,
                         entry);
  // A verdict may be another machine's, or a busy hour's: a bucket that seems
  // dear is not chosen, and so would never be timed again. Without one nothing
  // is known: a first run alone can be a thousand times the next.
  if (verdict.profit.fastest_seconds > 0 && !step.dynamic()) {
    version_.batcher.ResetCost(
        step.bucket, std::min(opened.first_run,
                              absl::Seconds(verdict.profit.fastest_seconds)));
  }
  CountPromotion("promoted");
  log::Info("{} {}: compiled, max error {:.2g}, {:.2f} x eager{}, key {}",
            version_.spec.Label(), step.name, verdict.parity.max_abs_error,
            verdict.profit.speedup,
            verdict.profit.worth_on_fewer
                ? ""
                : ", which serves where others have the cores",
            step.request.key.Short());
}

bool BucketPromoter::IsDoubtful(const WarmupStep& step) const {
  const std::optional<Verdict> verdict = KnownVerdict(step);
  if (!verdict.has_value() || !verdict->parity.equal) return false;
  if (!step.dynamic() && DynamicBehind(step) >= 0 &&
      version_.tiers.slot(step.bucket).Read().state == BucketState::kDynamic) {
    return false;
  }
  return !verdict->profit.clear ||
         verdict->profit.measured_on != version_.deps.machine ||
         verdict->profit.threads != version_.compute_threads;
}

void BucketPromoter::Retime(const WarmupStep& step) {
  const std::optional<ArtifactId> artifact = ArtifactOf(step);
  if (!artifact.has_value()) return;  // evicted meanwhile
  const std::optional<Verdict> known = evidence_.ReadVerdict(*artifact);
  if (!known.has_value()) return;  // likewise
  const absl::Status timed = TryRetime(step, *artifact, *known);
  if (!timed.ok() && !version_.stopping()) {
    log::Warn("{} {}: not timed again: {}", version_.spec.Label(), step.name,
              Std(timed.message()));
  }
}

absl::Status BucketPromoter::TryRetime(const WarmupStep& step,
                                       const ArtifactId& artifact,
                                       const Verdict& known) {
  const std::optional<CacheEntry> entry =
      version_.deps.cache->entries().Lookup(step.request.key);
  if (!entry.has_value() || entry->id() != artifact) {
    return absl::OkStatus();  // evicted or replaced meanwhile
  }
  BucketSlot& slot = version_.tiers.slot(step.bucket);
  ASSIGN_OR_RETURN(const std::shared_ptr<Executable> eager,
                   version_.tiers.Eager());
  const bool serves = slot.Read().state == BucketState::kCompiled;
  ArtifactOpener::Opened opened;
  if (!serves) {
    ASSIGN_OR_RETURN(opened, opener_.Open(step, *entry,
                                          opener_.TryInChild({&*entry, 1})[0]));
  }
  const std::shared_ptr<Executable> candidate =
      serves ? slot.compiled(0) : opened.executables.front();
  if (candidate == nullptr) return absl::OkStatus();  // lost meanwhile
  Verdict verdict{.parity = known.parity};
  ASSIGN_OR_RETURN(verdict.profit,
                   check_.Measure(*eager, *candidate, step.sizes, entry->bytes,
                                  CandidateCheck::Look::kSecond));
  verdict.profit.over_dynamic = known.profit.over_dynamic;
  if (!verdict.profit.clear) {
    // Noise took part in it: nothing changes for what it says.
    verdict.profit.worth = known.profit.worth;
    verdict.profit.worth_on_fewer = known.profit.worth_on_fewer;
  }
  evidence_.WriteProfit(artifact, verdict.profit);
  log::Info("{} {}: timed again: {}", version_.spec.Label(), step.name,
            verdict.profit.reason);
  if (serves && !verdict.profit.worth) {
    Refuse(step, FallbackReason::kProfit, verdict.profit.reason);
  } else if (serves) {
    slot.Judge(verdict);
  } else if (verdict.profit.worth) {
    const absl::StatusOr<bool> worth =
        BeatsDynamic(step, artifact, *candidate, verdict);
    if (worth.ok() && !*worth) return absl::OkStatus();
    Promote(step, *entry, std::move(opened), verdict);
  }
  return absl::OkStatus();
}

}  // namespace stoker
