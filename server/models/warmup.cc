// The part of ModelVersion that opens, compiles, checks and promotes: steps 3
// to 11 of a model load, in order.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/absl_view.h"
#include "base/cpus.h"
#include "base/status_macros.h"
#include "metrics/catalog.h"
#include "models/model_version.h"
#include "models/version_labels.h"
#include "promotion/parity_check.h"
#include "promotion/profitability_check.h"
#include "spdlog/spdlog.h"

namespace stoker {
namespace {

constexpr int kParityCases = 2;
constexpr int kCompileAttempts = 2;
// Timed pairs that hold the device thread at a stretch.
constexpr int kPairsAtOnce = 3;
constexpr int64_t kUnboundedTestSize = 2;

// A verdict depends on the weights, which the artifact does not.
std::string VerdictNote(const ModelSpec& spec) {
  return absl::StrCat("verdict-", spec.weights_digest.substr(0, 16), ".json");
}

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

InputDomain Domain(const InputSpec& input, absl::Span<const int64_t> sizes) {
  InputDomain domain;
  domain.dtype = input.dtype;
  for (const DimExpr& dim : input.dims) {
    domain.shape.push_back(dim.Evaluate(sizes).value_or(kUnboundedTestSize));
  }
  domain.normal = IsFloating(input.dtype) && !input.range.has_value();
  if (input.range.has_value()) {
    domain.low = input.range->first;
    domain.high = input.range->second;
  }
  return domain;
}

std::vector<InputDomain> Domains(const ModelSpec& spec,
                                 absl::Span<const int64_t> sizes) {
  std::vector<InputDomain> domains;
  for (const InputSpec& input : spec.inputs) {
    domains.push_back(Domain(input, sizes));
  }
  return domains;
}

}  // namespace

std::vector<Tensor> ModelVersion::BucketInputs(const ShapeBucket& bucket,
                                               uint64_t seed) const {
  return SeededInputs(Domains(*spec_, bucket.sizes), seed);
}

absl::Status ModelVersion::Load() {
  RETURN_IF_ERROR(cpus_.status());
  spdlog::info("{}: {} instance{} of {} thread{}, {}", spec_->Label(),
               spec_->instances, spec_->instances == 1 ? "" : "s", threads_,
               threads_ == 1 ? "" : "s", Placement());
  ASSIGN_OR_RETURN(weights_, deps_.loader->MapWeights(spec_->program_path));
  deps_.metrics->Gauge(metric::kWeightsBytes, labels_)
      .Set(static_cast<double>(spec_->weights_bytes));
  const bool may_compile = spec_->compile && deps_.cache != nullptr;
  std::vector<const WarmupStep*> missing;
  std::vector<const WarmupStep*> steps;  // of the entries
  std::vector<CacheEntry> entries;
  for (const WarmupStep& step : plan_) {
    if (stopping()) return absl::CancelledError("stopped while loading");
    if (!may_compile) {
      slots_[static_cast<size_t>(step.bucket)].Demote(
          spec_->compile ? "there is no kernel cache"
                         : "model.yaml says 'compile: false'");
      continue;
    }
    const std::optional<CacheEntry> entry =
        deps_.cache->Lookup(step.request.key);
    if (!entry.has_value()) {
      missing.push_back(&step);
      continue;
    }
    Verdict verdict;
    // Without a stored verdict the check needs eager, and that can wait.
    if (!deps_.verify_promotions || StoredVerdict(*entry, verdict)) {
      steps.push_back(&step);
      entries.push_back(*entry);
    }
  }
  const std::vector<absl::Status> survived = Survive(entries);
  for (size_t i = 0; i < entries.size(); ++i) {
    if (stopping()) return absl::CancelledError("stopped while loading");
    Settle(*steps[i], entries[i], survived[i]);
  }
  UpdateWarmupGauge();
  RETURN_IF_ERROR(RequireCache(missing));
  const bool eager_needed = slots_.empty() || !AllIn({BucketState::kCompiled});
  return eager_needed ? ProveEager() : absl::OkStatus();
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

std::string ModelVersion::Placement() const {
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
      plan_.empty() ? ShapeBucket{sizes} : spec_->buckets.front();
  const std::vector<Tensor> inputs = BucketInputs(smallest, 0);
  const std::shared_ptr<Executable> one[] = {eager};
  const absl::Status ran = RunOnce(one, inputs).status();
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
  for (const WarmupStep& step : plan_) {
    BucketSlot& slot = slots_[static_cast<size_t>(step.bucket)];
    if (stopping()) return;
    if (slot.settled()) continue;
    const std::optional<CacheEntry> entry =
        deps_.cache->Lookup(step.request.key);
    if (entry.has_value()) {
      Settle(step, *entry, Survive({&*entry, 1})[0]);
    } else {
      SubmitCompile(step);
    }
  }
  while (!stopping() && !AllIn({BucketState::kCompiled, BucketState::kEager})) {
    for (Arrival& arrival : WaitForArrivals()) {
      HandleArrival(std::move(arrival));
    }
  }
  if (!slots_.empty() && AllIn({BucketState::kCompiled})) LetEagerGo();
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

void ModelVersion::SubmitCompile(const WarmupStep& step) {
  const int bucket = step.bucket;
  slots_[static_cast<size_t>(bucket)].SetState(BucketState::kCompiling);
  ++attempts_[static_cast<size_t>(bucket)];
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
    Settle(step, *arrival.entry, Survive({&*arrival.entry, 1})[0]);
    return;
  }
  const absl::Status& status = arrival.entry.status();
  if (absl::IsCancelled(status)) return;
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
  if (deps_.first_run == nullptr) {
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
  const bool known = StoredVerdict(entry, verdict);
  if (deps_.verify_promotions && known && !verdict.promote) {
    refuse(verdict.speedup > 0 ? "profit" : "parity", verdict.reason);
    return;
  }
  slot.SetState(BucketState::kOpening);
  absl::StatusOr<std::vector<std::shared_ptr<Executable>>> executables =
      absl::UnknownError("not opened");
  if (survived.ok()) executables = Open(entry);
  absl::Status opened = survived.ok() ? executables.status() : survived;
  absl::Duration first_run = absl::InfiniteDuration();
  if (opened.ok()) {
    auto ran =
        RunOnce(*executables, BucketInputs(bucket(step.bucket), /*seed=*/0));
    opened = ran.status();
    if (ran.ok()) first_run = *ran;
  }
  if (stopping()) return;
  if (!opened.ok()) {
    if (!absl::IsFailedPrecondition(opened)) {
      deps_.cache->Quarantine(entry, Std(opened.message()));
    }
    refuse("open", std::string(opened.message()));
    return;
  }
  if (deps_.verify_promotions && !known) {
    slot.SetState(BucketState::kChecking);
    absl::StatusOr<Verdict> checked = Check(step, *executables->front());
    if (stopping()) return;
    if (!checked.ok()) {
      refuse("parity", absl::StrCat("the check could not run: ",
                                    std::string(checked.status().message())));
      return;
    }
    verdict = *checked;
    const absl::Status noted = deps_.cache->WriteNote(
        entry.key, VerdictNote(*spec_), VerdictToJson(verdict));
    if (!noted.ok()) {
      spdlog::warn("{} {}: verdict not stored: {}", spec_->Label(), step.name,
                   Std(noted.message()));
    }
    if (!verdict.promote) {
      refuse(verdict.speedup > 0 ? "profit" : "parity", verdict.reason);
      return;
    }
  }
  leases_[static_cast<size_t>(step.bucket)] = entry.lease;
  Promote(step, *std::move(executables), verdict, first_run);
}

absl::StatusOr<std::vector<std::shared_ptr<Executable>>> ModelVersion::Open(
    const CacheEntry& entry) {
  std::vector<std::shared_ptr<Executable>> executables;
  const std::string& folder = entry.verified->path();
  for (int thread = 0; thread < spec_->instances; ++thread) {
    const absl::Time start = deps_.clock->Now();
    auto opened = deps_.loader->OpenAot(folder, weights_);
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
                                            Executable& candidate) {
  ASSIGN_OR_RETURN(std::shared_ptr<Executable> eager, Eager());
  const std::vector<InputDomain> domains =
      Domains(*spec_, bucket(step.bucket).sizes);
  absl::StatusOr<ParityResult> parity = absl::UnknownError("not run");
  RETURN_IF_ERROR(batcher_.RunOnDeviceThread(0, [&] {
    parity = CheckParity(*eager, candidate, *contexts_[0], domains,
                         kParityCases, ParityTolerance{});
  }));
  RETURN_IF_ERROR(parity.status());
  if (!parity->equal) {
    Verdict verdict;
    verdict.max_abs_error = parity->max_abs_error;
    verdict.reason = parity->difference;
    return verdict;
  }
  // A few pairs at a time, so that requests get the device thread in between.
  const std::vector<Tensor> inputs = SeededInputs(domains, 0);
  ProfitMeasurement measured;
  const ProfitOptions options;
  ProfitOptions some = options;
  some.pairs = kPairsAtOnce;
  some.fewest_pairs = 1;
  const absl::Time start = deps_.clock->Now();
  while (!IsEnough(static_cast<int>(measured.candidate.size()),
                   deps_.clock->Now() - start, options)) {
    absl::StatusOr<ProfitMeasurement> more = absl::UnknownError("not run");
    RETURN_IF_ERROR(batcher_.RunOnDeviceThread(0, [&] {
      more = MeasureProfit(*eager, candidate, *contexts_[0], inputs,
                           *deps_.clock, some);
    }));
    RETURN_IF_ERROR(more.status());
    auto append = [](std::vector<double>& all, const std::vector<double>& few) {
      all.insert(all.end(), few.begin(), few.end());
    };
    append(measured.incumbent, more->incumbent);
    append(measured.candidate, more->candidate);
  }
  Verdict verdict = JudgeProfit(measured, options);
  verdict.max_abs_error = parity->max_abs_error;
  return verdict;
}

bool ModelVersion::StoredVerdict(const CacheEntry& entry,
                                 Verdict& verdict) const {
  const std::optional<std::string> note =
      deps_.cache->ReadNote(entry.key, VerdictNote(*spec_));
  return note.has_value() && ParseVerdict(*note, verdict);
}

void ModelVersion::Promote(const WarmupStep& step,
                           std::vector<std::shared_ptr<Executable>> executables,
                           const Verdict& verdict, absl::Duration first_run) {
  slots_[static_cast<size_t>(step.bucket)].Promote(std::move(executables),
                                                   verdict);
  // A verdict may be another machine's, or a busy hour's: a bucket that seems
  // dear is not chosen, and so would never be timed again. Without one nothing
  // is known: a first run alone can be a thousand times the next.
  if (verdict.candidate_seconds > 0) {
    batcher_.ResetCost(
        step.bucket,
        std::min(first_run, absl::Seconds(verdict.candidate_seconds)));
  }
  deps_.metrics
      ->Counter(metric::kPromotions, With(labels_, "outcome", "promoted"))
      .Add();
  UpdateWarmupGauge();
  spdlog::info("{} {}: compiled, max error {:.2g}, {:.2f} x eager, key {}",
               spec_->Label(), step.name, verdict.max_abs_error,
               verdict.speedup, step.request.key.Short());
}

}  // namespace stoker
