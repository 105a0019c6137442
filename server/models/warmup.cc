#include "models/warmup.h"

#include <algorithm>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "models/first_run.h"
#include "models/padded_run.h"
#include "models/version_labels.h"
#include "planning/parity_cases.h"

namespace stoker {
namespace {

// Timing takes the device for seconds, so it waits until the device has had
// nothing to do for this long...
constexpr absl::Duration kQuiet = absl::Seconds(2);
// ...or, of one that is never left alone, for this.
constexpr absl::Duration kPatience = absl::Minutes(10);

std::vector<WarmupStep> OwnCode(const VersionParts& version) {
  std::vector<WarmupStep> steps;
  if (version.spec.compile.dynamic != DynamicForms::kFirst) return steps;
  for (const WarmupStep& step : version.plan) {
    if (step.wanted) continue;
    steps.push_back(step);
    steps.back().wanted = true;
  }
  return steps;
}

}  // namespace

Warmup::Warmup(const VersionParts& version)
    : version_(version),
      own_code_(OwnCode(version)),
      opener_(version),
      check_({.spec = &version.spec,
              .layout = &version.layout,
              .made_up = &version.made_up,
              .device_threads = &version.device_threads,
              .clock = version.deps.clock,
              .reference = version.deps.reference,
              .machine = version.deps.machine,
              .stop = version.stop}),
      evidence_(version.spec,
                version.deps.cache == nullptr ? nullptr
                                              : &version.deps.cache->facts(),
                {version.deps.machine, version.compute_threads},
                version.deps.trust_verdicts),
      promoter_(version, opener_, check_, evidence_),
      compiles_(version, promoter_),
      graphs_(version, check_, evidence_) {}

absl::Status Warmup::Load() {
  RETURN_IF_ERROR(version_.tiers.MapWeights());
  const ModelSpec& spec = version_.spec;
  version_.deps.metrics->Gauge(metric::kWeightsBytes, VersionLabels(spec))
      .Set(static_cast<double>(spec.weights_bytes));
  std::vector<const WarmupStep*> missing;
  if (!spec.compile.enabled) {
    for (int i = 0; i < version_.tiers.size(); ++i) {
      version_.tiers.Demote(i, FallbackReason::kDisabled,
                            "model.yaml says 'compile: false'");
    }
  } else if (version_.deps.cache == nullptr) {
    for (int i = 0; i < version_.tiers.size(); ++i) {
      version_.tiers.Demote(i, FallbackReason::kNoCache,
                            "there is no kernel cache");
    }
  } else {
    for (const bool dynamic : {true, false}) {
      RETURN_IF_ERROR(SettleFromCache(Steps(dynamic), missing));
    }
  }
  RETURN_IF_ERROR(RequireCache(missing));
  // The compiler takes as long to start as eager takes to be proved.
  if (!missing.empty() && version_.deps.compiler != nullptr) {
    version_.deps.compiler->Expect();
  }
  if (!version_.tiers.AllCompiled()) return ProveEager();
  // Ready means at full speed, where nobody asked to be ready at once.
  if (spec.ready_when == ReadyWhen::kWarm) graphs_.CaptureAll();
  return absl::OkStatus();
}

std::vector<const WarmupStep*> Warmup::Steps(bool dynamic) const {
  std::vector<const WarmupStep*> steps;
  for (const WarmupStep& step : version_.plan) {
    if (step.dynamic() == dynamic) steps.push_back(&step);
  }
  return steps;
}

absl::Status Warmup::SettleFromCache(absl::Span<const WarmupStep* const> steps,
                                     std::vector<const WarmupStep*>& missing) {
  std::vector<const WarmupStep*> found;
  std::vector<CacheEntry> entries;  // of these
  for (const WarmupStep* step : steps) {
    if (version_.stopping()) {
      return absl::CancelledError("stopped while loading");
    }
    if (promoter_.LeaveUnwanted(*step) ||
        (!step->wanted && !version_.tiers.DynamicSettled())) {
      continue;
    }
    std::optional<CacheEntry> entry =
        version_.deps.cache->entries().Lookup(step->request.key);
    if (!entry.has_value()) {
      if (!promoter_.LeaveRefused(*step)) missing.push_back(step);
      continue;
    }
    // What was not found out before takes its time, and that can wait.
    if (promoter_.IsKnown(*step, *entry)) {
      found.push_back(step);
      entries.push_back(*std::move(entry));
    }
  }
  const std::vector<absl::Status> tried = opener_.TryInChild(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (version_.stopping()) {
      return absl::CancelledError("stopped while loading");
    }
    promoter_.Settle(*found[i], entries[i], tried[i], Look::kFirst);
  }
  return absl::OkStatus();
}

absl::Status Warmup::RequireCache(
    absl::Span<const WarmupStep* const> missing) const {
  if (!version_.deps.require_cache || missing.empty()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const WarmupStep* step : missing) {
    names.push_back(
        absl::StrCat(step->name, " (key ", step->request.key.Short(), ")"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "--require-cache: the kernel cache lacks ", missing.size(), " of ",
      version_.plan.size(), " buckets: ", absl::StrJoin(names, ", "),
      "; 'stokerctl cache explain' tells why"));
}

absl::Status Warmup::ProveEager() {
  const ModelSpec& spec = version_.spec;
  DimensionSizes sizes;
  for (const DimensionSpec& dimension : spec.dimensions) {
    sizes.push_back(dimension.min);
  }
  const ShapeBucket smallest =
      spec.buckets.empty() ? ShapeBucket{sizes} : spec.buckets.front();
  RETURN_IF_ERROR(TryEagerInChild(smallest.sizes));
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> eager, version_.tiers.Eager());
  const std::shared_ptr<Executable> one[] = {eager};
  const auto run_on = [&](absl::Span<const Tensor> inputs) {
    const absl::Status status = opener_.RunOnce(one, inputs).status();
    // Values that end its process are ones that it doesn't take.
    return spec.isolated() && absl::IsInternal(status)
               ? absl::InvalidArgumentError(status.message())
               : status;
  };
  absl::Status ran = version_.made_up.Try(smallest.sizes, /*seed=*/0, run_on);
  if (ran.ok()) ran = ProvePadding(*eager);
  if (!absl::IsInvalidArgument(ran)) return ran;
  if (spec.unproved) {
    log::Warn("{}: ready, though its eager form was not seen to run: {}",
              spec.Label(), Std(ran.message()));
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "its eager form refuses every input that was made up for it: ",
      ran.message(),
      "; say in model.yaml what 'range' the inputs are in, or 'unproved: true' "
      "if it answers requests all the same"));
}

absl::Status Warmup::TryEagerInChild(const DimensionSizes& sizes) {
  FirstRun* const first_run = version_.deps.first_run;
  const ModelSpec& spec = version_.spec;
  if (first_run == nullptr || spec.on_gpu() || spec.isolated()) {
    return absl::OkStatus();
  }
  return first_run->CheckEager(
      {spec.program_digest, spec.weights_digest, spec.HeldPath()},
      version_.compute_threads, version_.made_up.Of(sizes, /*seed=*/0),
      version_.stop);
}

absl::Status Warmup::ProvePadding(Executable& eager) {
  const ModelSpec& spec = version_.spec;
  if (!version_.deps.verify_promotions || spec.buckets.empty()) {
    return absl::OkStatus();
  }
  // The cheapest bucket that shows most: along as many dimensions as any.
  const ShapeBucket* chosen = nullptr;
  size_t most = 0;
  for (const ShapeBucket& bucket : spec.buckets) {
    const size_t along = PaddedAlongEach(spec, bucket).size();
    if (along < most || along == 0) continue;
    if (along == most && Volume(bucket.sizes) >= Volume(chosen->sizes))
      continue;
    most = along;
    chosen = &bucket;
  }
  if (chosen == nullptr) return absl::OkStatus();
  return check_.ProvePadding(eager, *chosen);
}

void Warmup::Run() {
  version_.tiers.BeginPace();
  std::vector<const WarmupStep*> steps = Steps(/*dynamic=*/true);
  for (const WarmupStep* step : Steps(/*dynamic=*/false)) steps.push_back(step);
  SettleAll(steps, Look::kFirst);
  if (version_.tiers.AllCompiled()) version_.tiers.CloseEager();
  // With the memory that eager had.
  graphs_.CaptureAll();
}

void Warmup::SettleAll(absl::Span<const WarmupStep* const> steps, Look look) {
  std::vector<const WarmupStep*> missing;
  for (const WarmupStep* step : steps) {
    if (version_.stopping()) return;
    if (version_.tiers.slot(step->bucket).settled()) continue;
    if (promoter_.LeaveUnwanted(*step)) continue;
    const std::optional<CacheEntry> entry =
        version_.deps.cache->entries().Lookup(step->request.key);
    if (entry.has_value()) {
      promoter_.Settle(*step, *entry, opener_.TryInChild({&*entry, 1})[0],
                       look);
    } else if (!promoter_.LeaveRefused(*step)) {
      missing.push_back(step);
    }
  }
  compiles_.Want(std::move(missing));
  compiles_.SubmitAllowed();
  while (!version_.stopping() && !version_.tiers.AllSettled()) {
    for (const BucketCompiles::Compiled& one : compiles_.Await()) {
      promoter_.Settle(*one.step, one.entry,
                       opener_.TryInChild({&one.entry, 1})[0], look);
    }
    compiles_.SubmitAllowed();
  }
}

void Warmup::Improve() {
  if (version_.deps.cache != nullptr) {
    const MonotonicTime latest = version_.deps.clock->Now() + kPatience;
    if (version_.deps.verify_promotions) RetimeDoubtful(latest);
    if (version_.deps.compiles) TryOwnCode(latest);
    if (version_.tiers.AllCompiled()) version_.tiers.CloseEager();
    graphs_.CaptureAll();  // of what was promoted only now
  }
  improved_ = true;
  if (!version_.stopping()) {
    log::Info("{}: nothing is left to improve", version_.spec.Label());
  }
}

void Warmup::TryOwnCode(MonotonicTime latest) {
  std::vector<const WarmupStep*> steps;
  for (const WarmupStep& step : own_code_) steps.push_back(&step);
  const WarmupStep* in_vain = nullptr;
  std::string why;
  for (const WarmupStep* step : compiles_.InOrder(std::move(steps))) {
    BucketSlot& slot = version_.tiers.slot(step->bucket);
    if (slot.Read().fallback == FallbackReason::kDynamicUntried) {
      if (in_vain != nullptr) {
        version_.tiers.Demote(
            step->bucket, FallbackReason::kDynamicTie,
            absl::StrCat("not compiled, like ", in_vain->name, ", ", why));
        continue;
      }
      AwaitQuiet(latest);
      if (version_.stopping()) return;
      slot.SetState(BucketState::kPending);
      const WarmupStep* const one[] = {step};
      SettleAll(one, Look::kSecond);
      if (version_.stopping()) return;
    }
    if (slot.Read().state != BucketState::kCompiled) {
      in_vain = step;
      why = slot.Read().detail;
    }
  }
}

void Warmup::RetimeDoubtful(MonotonicTime latest) {
  for (const WarmupStep& step : version_.plan) {
    if (!promoter_.IsDoubtful(step)) continue;
    AwaitQuiet(latest);
    if (version_.stopping()) break;
    promoter_.Retime(step);
  }
}

void Warmup::AwaitQuiet(MonotonicTime latest) const {
  Clock& clock = *version_.deps.clock;
  // What is timed is timed on the first.
  const DeviceTurns& turns = *version_.deps.placement.places.front().turns;
  absl::Mutex mu;
  bool stopped = false;  // guarded by mu
  const std::stop_callback stop(version_.stop, [&mu, &stopped] {
    absl::MutexLock lock(&mu);
    stopped = true;
  });
  absl::MutexLock lock(&mu);
  bool quiet = false;
  while (!quiet && !stopped && clock.Now() < latest) {
    const uint64_t asked = turns.asked();
    clock.AwaitWithDeadline(&mu, absl::Condition(&stopped),
                            std::min(clock.Now() + kQuiet, latest));
    quiet = turns.asked() == asked && turns.idle();
  }
}

}  // namespace stoker
