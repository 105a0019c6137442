// The part of ModelVersion that opens, compiles, checks and promotes: steps 3
// to 11 of a model load, in order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/absl_view.h"
#include "base/cpus.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "models/model_version.h"
#include "models/padded_run.h"
#include "models/version_labels.h"
#include "planning/bucket_choice.h"
#include "planning/parity_cases.h"
#include "spdlog/spdlog.h"

namespace stoker {
namespace {

constexpr int kCompileAttempts = 2;

std::string_view FallbackReason(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return "no_compiler";
    case absl::StatusCode::kDeadlineExceeded:
      return "timeout";
    case absl::StatusCode::kResourceExhausted:
      return "memory";
    case absl::StatusCode::kFailedPrecondition:
      return "refused";
    default:
      return "compile";
  }
}

// Whether an artifact that doesn't open is to blame itself, and not the host or
// its GPU, which another time may have room for it, or be there again.
bool IsItsOwnFault(const absl::Status& status) {
  return !absl::IsFailedPrecondition(status) &&
         !absl::IsResourceExhausted(status) && !absl::IsUnavailable(status);
}

}  // namespace

absl::Status ModelVersion::Load() {
  RETURN_IF_ERROR(cpus_.status());
  spdlog::info("{}: {} instance{} of {} thread{}, {}", spec_->Label(),
               threads(), threads() == 1 ? "" : "s", threads_,
               threads_ == 1 ? "" : "s", WhereItRuns());
  for (Home& home : homes_) {
    ASSIGN_OR_RETURN(home.weights,
                     home.place.loader->MapWeights(spec_->program_path));
  }
  deps_.metrics->Gauge(metric::kWeightsBytes, labels_)
      .Set(static_cast<double>(spec_->weights_bytes));
  std::vector<const WarmupStep*> missing;
  if (spec_->compile.enabled && deps_.cache != nullptr) {
    // Whether a bucket's own code is worth having depends on the forms.
    for (const bool forms : {true, false}) {
      RETURN_IF_ERROR(SettleFromCache(Steps(forms), missing));
    }
  } else {
    for (BucketSlot& slot : slots_) {
      slot.Demote(spec_->compile.enabled ? "there is no kernel cache"
                                         : "model.yaml says 'compile: false'");
    }
  }
  UpdateWarmupGauge();
  RETURN_IF_ERROR(RequireCache(missing));
  if (!AllCompiled()) return ProveEager();
  // Ready means at full speed, where nobody asked to be ready at once.
  if (spec_->ready_when == ReadyWhen::kWarm) CaptureGraphs();
  return absl::OkStatus();
}

std::vector<const WarmupStep*> ModelVersion::Steps(bool forms) const {
  std::vector<const WarmupStep*> steps;
  for (const WarmupStep& step : plan_) {
    if (step.dynamic() == forms) steps.push_back(&step);
  }
  return steps;
}

absl::Status ModelVersion::SettleFromCache(
    absl::Span<const WarmupStep* const> steps,
    std::vector<const WarmupStep*>& missing) {
  std::vector<const WarmupStep*> found;
  std::vector<CacheEntry> entries;  // of these
  for (const WarmupStep* step : steps) {
    if (stopping()) return absl::CancelledError("stopped while loading");
    if (LeaveToForm(*step) || (!step->wanted && !FormsSettled())) continue;
    const std::optional<CacheEntry> entry =
        deps_.cache->Lookup(step->request.key);
    if (!entry.has_value()) {
      missing.push_back(step);
      continue;
    }
    Verdict verdict;
    // What was not found out before takes its time, and that can wait.
    if (!deps_.verify_promotions ||
        (StoredVerdict(entry->key, verdict) && IsCompared(*step, verdict))) {
      found.push_back(step);
      entries.push_back(*entry);
    }
  }
  const std::vector<absl::Status> survived = Survive(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (stopping()) return absl::CancelledError("stopped while loading");
    Settle(*found[i], entries[i], survived[i]);
  }
  return absl::OkStatus();
}

absl::Status ModelVersion::RequireCache(
    absl::Span<const WarmupStep* const> missing) const {
  if (!deps_.require_cache || missing.empty()) return absl::OkStatus();
  std::vector<std::string> names;
  for (const WarmupStep* step : missing) {
    names.push_back(
        absl::StrCat(step->name, " (key ", step->request.key.Short(), ")"));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "--require-cache: the kernel cache lacks ", missing.size(), " of ",
      plan_.size(), " buckets: ", absl::StrJoin(names, ", "),
      "; 'stokerctl cache explain' tells why"));
}

std::string ModelVersion::WhereItRuns() const {
  if (!cpus_.ok() || cpus_->empty()) {
    return absl::StrCat("on any of the CPUs ", CpuList(UsableCpus()));
  }
  return absl::StrCat("on the CPUs ",
                      absl::StrJoin(*cpus_, " and ", [](auto* out, auto& set) {
                        out->append(CpuList(set));
                      }));
}

absl::Status ModelVersion::ProveEager() {
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> eager, Eager());
  DimensionSizes sizes;
  for (const DimensionSpec& dimension : spec_->dimensions) {
    sizes.push_back(dimension.min);
  }
  const ShapeBucket smallest =
      spec_->buckets.empty() ? ShapeBucket{sizes} : spec_->buckets.front();
  const std::vector<Tensor> inputs = InputsOf(*spec_, smallest.sizes, 0);
  const std::shared_ptr<Executable> one[] = {eager};
  absl::Status ran = RunOnce(one, inputs).status();
  if (ran.ok()) ran = ProvePadding(*eager);
  if (absl::IsInvalidArgument(ran)) {
    // The seeded values were refused, not the program: it ran.
    spdlog::warn(
        "{}: seeded inputs were refused by eager, set 'range' in "
        "model.yaml: {}",
        spec_->Label(), Std(ran.message()));
    return absl::OkStatus();
  }
  return ran;
}

absl::Status ModelVersion::ProvePadding(Executable& eager) {
  if (!deps_.verify_promotions || spec_->buckets.empty()) {
    return absl::OkStatus();
  }
  // The cheapest bucket that shows most: along as many dimensions as any.
  const ShapeBucket* chosen = nullptr;
  size_t most = 0;
  for (const ShapeBucket& bucket : spec_->buckets) {
    const size_t along = PaddedAlongEach(*spec_, bucket).size();
    if (along < most || along == 0) continue;
    if (along == most && Volume(bucket.sizes) >= Volume(chosen->sizes))
      continue;
    most = along;
    chosen = &bucket;
  }
  if (chosen == nullptr) return absl::OkStatus();
  return Checker().ProvePadding(eager, *chosen);
}

CandidateCheck ModelVersion::Checker() {
  return CandidateCheck({.spec = spec_.get(),
                         .layout = &layout_,
                         .batcher = &batcher_,
                         .context = contexts_[0].get(),
                         .clock = deps_.clock,
                         .reference = deps_.reference,
                         .machine = deps_.machine,
                         .recorded = RecordedRequests(),
                         .stopping = [this] { return stopping(); }});
}

std::vector<CandidateCheck::Recorded> ModelVersion::RecordedRequests() const {
  std::vector<CandidateCheck::Recorded> requests;
  if (deps_.samples == nullptr) return requests;
  for (SampledRequest& sample : deps_.samples->Read()) {
    CandidateCheck::Recorded request{std::move(sample.sizes), {}};
    // Another version may have had other inputs.
    bool possible = request.sizes.size() == spec_->dimensions.size() &&
                    sample.inputs.size() == spec_->inputs.size();
    for (const InputSpec& input : spec_->inputs) {
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

absl::StatusOr<absl::Duration> ModelVersion::RunOnce(
    absl::Span<const std::shared_ptr<Executable>> executables,
    absl::Span<const Tensor> inputs) {
  absl::Duration shortest = absl::InfiniteDuration();
  for (size_t thread = 0; thread < executables.size(); ++thread) {
    absl::Status ran = absl::OkStatus();
    RETURN_IF_ERROR(batcher_.RunOnDeviceThread(static_cast<int>(thread), [&] {
      const absl::Time start = deps_.clock->Now();
      ran = executables[thread]->Run(*contexts_[thread], inputs).status();
      shortest = std::min(shortest, deps_.clock->Now() - start);
    }));
    RETURN_IF_ERROR(ran);
  }
  return shortest;
}

void ModelVersion::WarmUp() {
  {
    absl::MutexLock lock(&pace_mu_);
    pace_.start = pace_.last = deps_.clock->Now();
    pace_.settled_before = pace_.settled;
  }
  std::vector<const WarmupStep*> missing;
  std::vector<const WarmupStep*> steps = Steps(/*forms=*/true);
  absl::c_copy(Steps(/*forms=*/false), std::back_inserter(steps));
  for (const WarmupStep* step : steps) {
    if (stopping()) return;
    if (slots_[static_cast<size_t>(step->bucket)].settled()) continue;
    if (LeaveToForm(*step)) continue;
    const std::optional<CacheEntry> entry =
        deps_.cache->Lookup(step->request.key);
    if (entry.has_value()) {
      Settle(*step, *entry, Survive({&*entry, 1})[0]);
    } else {
      missing.push_back(step);
    }
  }
  to_compile_ = InOrderOfDemand(std::move(missing));
  SubmitCompiles();
  while (!stopping() && !AllSettled()) {
    for (Arrival& arrival : WaitForArrivals()) {
      HandleArrival(std::move(arrival));
    }
    SubmitCompiles();
  }
  if (AllCompiled()) LetEagerGo();
  // With the memory that eager had.
  CaptureGraphs();
}

std::deque<ModelVersion::Arrival> ModelVersion::WaitForArrivals() {
  std::deque<Arrival> arrived;
  absl::MutexLock lock(&inbox_->mu);
  auto awake = [inbox = inbox_.get()] {
    inbox->mu.AssertReaderHeld();
    return !inbox->arrivals.empty() || inbox->stopping;
  };
  deps_.clock->AwaitWithDeadline(&inbox_->mu, absl::Condition(&awake),
                                 absl::InfiniteFuture());
  arrived.swap(inbox_->arrivals);
  return arrived;
}

std::deque<const WarmupStep*> ModelVersion::InOrderOfDemand(
    std::vector<const WarmupStep*> steps) const {
  std::vector<uint64_t> demand(slots_.size(), 0);
  if (deps_.traffic != nullptr) {
    for (const ShapeCount& shape : deps_.traffic->Read().requests) {
      const std::optional<int> bucket = table_.Match(shape.sizes);
      if (bucket) demand[static_cast<size_t>(*bucket)] += shape.count;
    }
  }
  // A form serves all buckets until they have code of their own.
  for (size_t i = spec_->buckets.size(); i < demand.size(); ++i) {
    demand[i] = std::numeric_limits<uint64_t>::max();
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [&demand](const WarmupStep* a, const WarmupStep* b) {
                     return demand[static_cast<size_t>(a->bucket)] >
                            demand[static_cast<size_t>(b->bucket)];
                   });
  return {steps.begin(), steps.end()};
}

void ModelVersion::SubmitCompiles() {
  const bool limited = spec_->compile.budget != absl::InfiniteDuration() ||
                       spec_->compile.pays_back_within.has_value();
  std::vector<std::string> not_paying;  // until the next compile
  while (!to_compile_.empty() && !stopping()) {
    // One at a time: what it took, and what it gained, says whether the next
    // one is allowed.
    if (limited && !AllIn({BucketState::kPending, BucketState::kCompiled,
                           BucketState::kDynamic, BucketState::kEager})) {
      return;
    }
    const WarmupStep& step = *to_compile_.front();
    if (!step.dynamic() && !FormsSettled()) return;
    to_compile_.pop_front();
    if (LeaveToForm(step)) continue;
    if (std::optional<std::string> why = BeyondBudget()) {
      FallBack(step.bucket, "budget", *std::move(why));
      continue;
    }
    if (not_paying.empty()) not_paying = NotPayingBack();
    const std::string& reason = not_paying[static_cast<size_t>(step.bucket)];
    if (!reason.empty()) {
      FallBack(step.bucket, "payback", reason);
    } else {
      SubmitCompile(step);
    }
  }
}

std::optional<std::string> ModelVersion::BeyondBudget() const {
  const absl::Duration budget = spec_->compile.budget;
  if (spent_ + last_compile_ <= budget) return std::nullopt;
  return absl::StrFormat(
      "not compiled: %.0f of budget_seconds %.0f are spent, and a compile "
      "takes about %.0f; the next start goes on here",
      absl::ToDoubleSeconds(spent_), absl::ToDoubleSeconds(budget),
      absl::ToDoubleSeconds(last_compile_));
}

std::vector<std::string> ModelVersion::NotPayingBack() const {
  std::vector<std::string> reasons(slots_.size());
  const std::optional<int64_t> within = spec_->compile.pays_back_within;
  if (!within.has_value()) return reasons;
  const TrafficRecord traffic =
      deps_.traffic != nullptr ? deps_.traffic->Read() : TrafficRecord{};
  const BucketExperience experience =
      KnownBuckets(*deps_.cache, *spec_, threads_, deps_.toolchain);
  const bool tried = absl::c_any_of(attempts_, [](int n) { return n > 0; });
  // The first one, which traffic asks for most, shows what compiling gains.
  if (!traffic.requests.empty() && !experience.compiled.measured() && !tried) {
    return reasons;
  }
  const absl::StatusOr<std::vector<double>> pay_back =
      RequestsToPayBack(*spec_, traffic, experience);
  for (size_t bucket = 0; bucket < spec_->buckets.size(); ++bucket) {
    if (!pay_back.ok()) {
      reasons[bucket] =
          absl::StrCat("not compiled: pays_back_within is ", *within, ", and ",
                       pay_back.status().message());
    } else if (std::isinf((*pay_back)[bucket])) {
      reasons[bucket] =
          "not compiled: by the recorded traffic it would never pay back";
    } else if ((*pay_back)[bucket] > static_cast<double>(*within)) {
      reasons[bucket] = absl::StrFormat(
          "not compiled: by the recorded traffic it would pay back after %.0f "
          "requests, and pays_back_within is %d",
          (*pay_back)[bucket], *within);
    }
  }
  return reasons;
}

bool ModelVersion::MorePaysBack() const {
  const auto was_left = [](const BucketSlot& slot) {
    return absl::StartsWith(slot.Read().detail, "payback: ");
  };
  if (absl::c_none_of(slots_, was_left)) return false;
  const std::vector<std::string> reasons = NotPayingBack();
  for (size_t bucket = 0; bucket < reasons.size(); ++bucket) {
    if (reasons[bucket].empty() && was_left(slots_[bucket])) return true;
  }
  return false;
}

void ModelVersion::SubmitCompile(const WarmupStep& step) {
  const int bucket = step.bucket;
  slots_[static_cast<size_t>(bucket)].SetState(BucketState::kCompiling);
  ++attempts_[static_cast<size_t>(bucket)];
  submitted_ = deps_.clock->Now();
  if (deps_.server_ready && deps_.server_ready()) {
    deps_.metrics->Counter(metric::kCompilesAfterReady).Add();
  }
  deps_.broker->Submit(
      step.request,
      [inbox = inbox_, bucket, clock = deps_.clock](std::string_view phase) {
        const absl::Time now = clock->Now();
        absl::MutexLock lock(&inbox->mu);
        inbox->phases[static_cast<size_t>(bucket)] = {std::string(phase), now};
      },
      [inbox = inbox_, bucket](absl::StatusOr<CacheEntry> entry) {
        absl::MutexLock lock(&inbox->mu);
        inbox->arrivals.push_back({bucket, std::move(entry)});
      });
}

void ModelVersion::HandleArrival(Arrival arrival) {
  const WarmupStep& step = plan_[static_cast<size_t>(arrival.bucket)];
  if (arrival.entry.ok()) {
    last_compile_ = absl::Seconds(arrival.entry->compile_seconds);
    spent_ += last_compile_;
    Settle(step, *arrival.entry, Survive({&*arrival.entry, 1})[0]);
    return;
  }
  const absl::Status& status = arrival.entry.status();
  if (absl::IsCancelled(status)) return;
  // A failure says nothing of what the next one takes, but it took its time,
  // waiting for others included.
  spent_ += deps_.clock->Now() - submitted_;
  const std::string_view reason = FallbackReason(status);
  if (reason == "compile" &&
      attempts_[static_cast<size_t>(arrival.bucket)] < kCompileAttempts) {
    spdlog::warn("{} {}: compile failed, trying once more: {}", spec_->Label(),
                 step.name, Std(status.message()));
    SubmitCompile(step);
    return;
  }
  deps_.metrics
      ->Counter(metric::kPromotions, With(labels_, "outcome", "compile"))
      .Add();
  FallBack(arrival.bucket, reason, std::string(status.message()));
}

std::vector<absl::Status> ModelVersion::Survive(
    absl::Span<const CacheEntry> entries) const {
  // On a GPU a child would take a second, and as much memory again, to try code
  // whose architecture has been looked at.
  if (deps_.first_run == nullptr || spec_->on_gpu()) {
    return std::vector<absl::Status>(entries.size(), absl::OkStatus());
  }
  return deps_.first_run->Check(spec_->program_path, threads_, entries);
}

void ModelVersion::Settle(const WarmupStep& step, const CacheEntry& entry,
                          const absl::Status& survived) {
  BucketSlot& slot = slots_[static_cast<size_t>(step.bucket)];
  auto refuse = [&](std::string_view label, std::string reason) {
    deps_.metrics->Counter(metric::kPromotions, With(labels_, "outcome", label))
        .Add();
    FallBack(step.bucket, label, std::move(reason));
  };

  Verdict verdict;
  const bool known = StoredVerdict(entry.key, verdict);
  if (deps_.verify_promotions && known && !verdict.promote) {
    refuse(verdict.refusal, verdict.reason);
    return;
  }
  slot.SetState(BucketState::kOpening);
  absl::StatusOr<Opened> opened = OpenAndRun(step, entry, survived);
  if (stopping()) return;
  if (const absl::Status& status = opened.status(); !status.ok()) {
    if (IsItsOwnFault(status)) {
      deps_.cache->Quarantine(entry, Std(status.message()));
    }
    refuse(absl::IsResourceExhausted(status) ? "memory" : "open",
           std::string(status.message()));
    return;
  }
  if (deps_.verify_promotions && !known) {
    slot.SetState(BucketState::kChecking);
    absl::StatusOr<Verdict> checked =
        Check(step, entry, *opened->executables.front());
    if (stopping()) return;
    if (!checked.ok()) {
      refuse(absl::IsResourceExhausted(checked.status()) ? "memory" : "parity",
             absl::StrCat("the check could not run: ",
                          std::string(checked.status().message())));
      return;
    }
    verdict = *checked;
    if (!verdict.promote) {
      refuse(verdict.refusal, verdict.reason);
      return;
    }
  }
  if (deps_.verify_promotions) {
    const absl::StatusOr<bool> worth =
        BeatsDynamic(step, *opened->executables.front(), verdict);
    if (stopping()) return;
    if (worth.ok() && !*worth) {
      LeaveToForm(step, verdict);
      return;
    }
  }
  Promote(step, entry, std::move(opened->executables), verdict,
          opened->first_run);
}

int ModelVersion::FormBehind(const WarmupStep& step) const {
  return step.dynamic() ? -1 : FormFor(0, ShapesOf(*spec_, step.sizes.sizes));
}

bool ModelVersion::IsCompared(const WarmupStep& step,
                              const Verdict& verdict) const {
  const int form = FormBehind(step);
  return form < 0 || !verdict.promote ||
         (verdict.over_dynamic.has_value() &&
          verdict.over_dynamic->key ==
              slots_[static_cast<size_t>(form)].Read().key);
}

absl::StatusOr<bool> ModelVersion::BeatsDynamic(const WarmupStep& step,
                                                Executable& candidate,
                                                Verdict& verdict) {
  const int index = FormBehind(step);
  if (index < 0) return true;
  const BucketSlot& slot = slots_[static_cast<size_t>(index)];
  const std::shared_ptr<Executable> form = slot.executable(0);
  if (form == nullptr) return true;  // lost meanwhile
  if (!IsCompared(step, verdict)) {
    ASSIGN_OR_RETURN(verdict.over_dynamic,
                     Checker().Compare(*form, candidate, step.sizes));
    verdict.over_dynamic->key = slot.Read().key;
    StoreVerdict(step.request.key, verdict);
  }
  return verdict.over_dynamic->faster;
}

bool ModelVersion::LeaveToForm(const WarmupStep& step) {
  if (step.wanted || FormBehind(step) < 0) return false;
  Demote(step.bucket, "dynamic: model.yaml says 'dynamic: only'");
  return true;
}

void ModelVersion::LeaveToForm(const WarmupStep& step, const Verdict& verdict) {
  const std::string reason = absl::StrFormat(
      "%.2f times as fast as the dynamic form, which serves it without a "
      "package more",
      verdict.over_dynamic->speedup);
  deps_.metrics
      ->Counter(metric::kPromotions, With(labels_, "outcome", "dynamic"))
      .Add();
  spdlog::info("{} {}: left to the dynamic form: {}", spec_->Label(), step.name,
               reason);
  Demote(step.bucket, absl::StrCat("dynamic: ", reason));
  // Eager's runs until now say nothing of the form's.
  if (verdict.fastest_seconds > 0) {
    batcher_.ResetCost(step.bucket, absl::Seconds(verdict.fastest_seconds));
  }
}

absl::StatusOr<DimensionSizes> ModelVersion::RunSizes(
    const WarmupStep& step, const Executable& opened) const {
  if (!step.dynamic()) return step.sizes.sizes;
  std::vector<DimensionSizes> taken =
      SizesTaken(*spec_, SizesOfForm(*spec_, step.sizes), opened);
  if (!taken.empty()) return std::move(taken.front());
  return absl::FailedPreconditionError(
      "the compiled code takes none of the sizes that it was to be tried at");
}

absl::StatusOr<ModelVersion::Opened> ModelVersion::OpenAndRun(
    const WarmupStep& step, const CacheEntry& entry,
    const absl::Status& survived) {
  RETURN_IF_ERROR(survived);
  Opened opened;
  ASSIGN_OR_RETURN(opened.executables, Open(entry));
  ASSIGN_OR_RETURN(const DimensionSizes sizes,
                   RunSizes(step, *opened.executables.front()));
  ASSIGN_OR_RETURN(
      opened.first_run,
      RunOnce(opened.executables, InputsOf(*spec_, sizes, /*seed=*/0)));
  return opened;
}

absl::StatusOr<std::vector<std::shared_ptr<Executable>>> ModelVersion::Open(
    const CacheEntry& entry) {
  std::vector<std::shared_ptr<Executable>> executables;
  const std::string& folder = entry.verified->path();
  for (int thread = 0; thread < threads(); ++thread) {
    const absl::Time start = deps_.clock->Now();
    const Home& home = HomeOf(thread);
    auto opened = home.place.loader->OpenAot(folder, home.weights);
    if (!opened.ok()) {
      return absl::Status(opened.status().code(),
                          absl::StrReplaceAll(opened.status().message(),
                                              {{folder, entry.folder}}));
    }
    deps_.metrics->Histogram(metric::kArtifactOpenSeconds)
        .Observe(absl::ToDoubleSeconds(deps_.clock->Now() - start));
    executables.push_back(*std::move(opened));
  }
  return executables;
}

absl::StatusOr<Verdict> ModelVersion::Check(const WarmupStep& step,
                                            const CacheEntry& entry,
                                            Executable& candidate) {
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> eager, Eager());
  ASSIGN_OR_RETURN(CandidateCheck::Evidence evidence,
                   Checker().Check(*eager, candidate, step.sizes, entry.bytes));
  if (!evidence.reproducer.empty()) {
    const absl::Status kept = deps_.cache->WriteNote(
        entry.key, ReproducerNoteName(*spec_), evidence.reproducer);
    if (!kept.ok()) {
      spdlog::warn("{} {}: reproducer not stored: {}", spec_->Label(),
                   step.name, Std(kept.message()));
    }
  }
  StoreVerdict(entry.key, evidence.verdict);
  return std::move(evidence.verdict);
}

bool ModelVersion::StoredVerdict(const ArtifactKey& key,
                                 Verdict& verdict) const {
  if (!deps_.trust_verdicts) return false;
  const std::optional<std::string> note =
      deps_.cache->ReadNote(key, VerdictNoteName(*spec_));
  return note.has_value() && ParseVerdict(*note, verdict);
}

void ModelVersion::StoreVerdict(const ArtifactKey& key,
                                const Verdict& verdict) const {
  const absl::Status noted = deps_.cache->WriteNote(
      key, VerdictNoteName(*spec_), VerdictToJson(verdict));
  if (!noted.ok()) {
    spdlog::warn("{} {}: verdict not stored: {}", spec_->Label(), key.Short(),
                 Std(noted.message()));
  }
}

void ModelVersion::MeasureAgain() {
  if (!deps_.verify_promotions || deps_.cache == nullptr) return;
  for (const WarmupStep& step : plan_) {
    if (stopping()) break;
    Verdict verdict;
    if (!StoredVerdict(step.request.key, verdict)) continue;
    if (!step.wanted && FormBehind(step) >= 0) continue;
    const bool doubtful =
        !verdict.clear || verdict.measured_on != deps_.machine;
    if (!doubtful || verdict.refusal == "parity") continue;
    const std::optional<CacheEntry> entry =
        deps_.cache->Lookup(step.request.key);
    if (!entry.has_value()) continue;
    const absl::Status measured =
        MeasureAgain(step, *entry, std::move(verdict));
    if (!measured.ok() && !stopping()) {
      spdlog::warn("{} {}: not timed again: {}", spec_->Label(), step.name,
                   Std(measured.message()));
    }
  }
  if (AllCompiled()) LetEagerGo();
  CaptureGraphs();  // of what was promoted only now
}

absl::Status ModelVersion::MeasureAgain(const WarmupStep& step,
                                        const CacheEntry& entry,
                                        Verdict verdict) {
  BucketSlot& slot = slots_[static_cast<size_t>(step.bucket)];
  ASSIGN_OR_RETURN(const std::shared_ptr<Executable> eager, Eager());
  const bool serves = slot.Read().state == BucketState::kCompiled;
  Opened opened;
  if (!serves) {
    ASSIGN_OR_RETURN(opened, OpenAndRun(step, entry, Survive({&entry, 1})[0]));
  }
  const std::shared_ptr<Executable> candidate =
      serves ? slot.compiled(0) : opened.executables.front();
  if (candidate == nullptr) return absl::OkStatus();  // lost meanwhile
  RETURN_IF_ERROR(
      Checker().Measure(*eager, *candidate, step.sizes, entry.bytes, verdict));
  StoreVerdict(entry.key, verdict);
  spdlog::info("{} {}: timed again: {}", spec_->Label(), step.name,
               verdict.reason);
  if (serves && !verdict.promote) {
    deps_.metrics
        ->Counter(metric::kPromotions, With(labels_, "outcome", "profit"))
        .Add();
    FallBack(step.bucket, verdict.refusal, verdict.reason);
  } else if (!serves && verdict.promote) {
    const absl::StatusOr<bool> worth = BeatsDynamic(step, *candidate, verdict);
    if (worth.ok() && !*worth) return absl::OkStatus();
    Promote(step, entry, std::move(opened.executables), verdict,
            opened.first_run);
  }
  return absl::OkStatus();
}

void ModelVersion::Promote(const WarmupStep& step, const CacheEntry& entry,
                           std::vector<std::shared_ptr<Executable>> executables,
                           const Verdict& verdict, absl::Duration first_run) {
  slots_[static_cast<size_t>(step.bucket)].Promote(
      std::move(executables), verdict, entry.compile_seconds);
  leases_[static_cast<size_t>(step.bucket)] = entry.lease;
  // A verdict may be another machine's, or a busy hour's: a bucket that seems
  // dear is not chosen, and so would never be timed again. Without one nothing
  // is known: a first run alone can be a thousand times the next.
  if (verdict.fastest_seconds > 0 && !step.dynamic()) {
    batcher_.ResetCost(
        step.bucket,
        std::min(first_run, absl::Seconds(verdict.fastest_seconds)));
  }
  deps_.metrics
      ->Counter(metric::kPromotions, With(labels_, "outcome", "promoted"))
      .Add();
  UpdateWarmupGauge();
  spdlog::info("{} {}: compiled, max error {:.2g}, {:.2f} x eager, key {}",
               spec_->Label(), step.name, verdict.max_abs_error,
               verdict.speedup, step.request.key.Short());
  graph_tried_[static_cast<size_t>(step.bucket)] = false;
  if (step.dynamic()) UpdateFloors();
}

}  // namespace stoker
