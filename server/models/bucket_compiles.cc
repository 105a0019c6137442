#include "models/bucket_compiles.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stop_token>
#include <utility>

#include "absl/algorithm/container.h"
#include "base/absl_view.h"
#include "base/log.h"
#include "metrics/catalog.h"
#include "models/version_labels.h"
#include "models/work_told.h"
#include "planning/bucket_choice.h"
#include "planning/parity_cases.h"

namespace stoker {
namespace {

constexpr int kCompileAttempts = 2;

}  // namespace

BucketCompiles::BucketCompiles(const VersionParts& version,
                               BucketPromoter& promoter)
    : version_(version),
      promoter_(promoter),
      table_(version.spec.buckets, Paddable(version.spec)),
      limited_(version.spec.compile.budget != absl::InfiniteDuration() ||
               version.spec.compile.pays_back_within.has_value()),
      attempts_(version.plan.size(), 0),
      budget_(version.spec.compile.budget),
      inbox_(std::make_shared<Inbox>(version.plan.size())) {}

void BucketCompiles::Want(std::vector<const WarmupStep*> steps) {
  steps = InOrder(std::move(steps));
  wanted_.assign(steps.begin(), steps.end());
}

std::vector<const WarmupStep*> BucketCompiles::InOrder(
    std::vector<const WarmupStep*> steps) const {
  std::vector<uint64_t> demand(version_.plan.size(), 0);
  if (version_.deps.traffic != nullptr) {
    for (const ShapeCount& shape : version_.deps.traffic->Read().requests) {
      const std::optional<int> bucket = table_.Match(shape.sizes);
      if (bucket) demand[static_cast<size_t>(*bucket)] += shape.count;
    }
  }
  // A dynamic form serves all buckets until they have code of their own.
  for (size_t i = version_.spec.buckets.size(); i < demand.size(); ++i) {
    demand[i] = std::numeric_limits<uint64_t>::max();
  }
  absl::c_stable_sort(steps,
                      [&demand](const WarmupStep* a, const WarmupStep* b) {
                        return demand[static_cast<size_t>(a->bucket)] >
                               demand[static_cast<size_t>(b->bucket)];
                      });
  return steps;
}

void BucketCompiles::SubmitAllowed() {
  std::vector<std::string> not_paying;  // until the next compile
  while (!wanted_.empty() && !version_.stopping()) {
    // One at a time: what it took, and what it gained, says whether the next
    // one is allowed.
    if (limited_ &&
        !version_.tiers.AllIn({BucketState::kPending, BucketState::kCompiled,
                               BucketState::kDynamic, BucketState::kEager})) {
      return;
    }
    const WarmupStep& step = *wanted_.front();
    // Whether a bucket's own code is worth having depends on them.
    if (!step.dynamic() && !version_.tiers.DynamicSettled()) return;
    wanted_.pop_front();
    if (promoter_.LeaveUnwanted(step)) continue;
    if (const std::optional<std::string> why = budget_.Exceeded()) {
      version_.tiers.FallBack(step.bucket, FallbackReason::kBudget, *why);
      continue;
    }
    if (not_paying.empty()) not_paying = WhyNotPayingBack();
    const std::string& why = not_paying[static_cast<size_t>(step.bucket)];
    if (!why.empty()) {
      version_.tiers.FallBack(step.bucket, FallbackReason::kPayback, why);
    } else {
      Submit(step);
    }
  }
}

std::vector<std::string> BucketCompiles::WhyNotPayingBack() const {
  const ModelSpec& spec = version_.spec;
  std::vector<std::string> none(version_.plan.size());
  const std::optional<int64_t> within = spec.compile.pays_back_within;
  if (!within.has_value()) return none;
  const TrafficRecord traffic = version_.deps.traffic != nullptr
                                    ? version_.deps.traffic->Read()
                                    : TrafficRecord{};
  const BucketExperience experience =
      KnownBuckets(*version_.deps.cache, spec,
                   {version_.deps.machine, version_.compute_threads},
                   version_.deps.toolchain);
  const bool tried = absl::c_any_of(attempts_, [](int n) { return n > 0; });
  // The first one, which traffic asks for most, shows what compiling gains.
  if (!traffic.requests.empty() && !experience.compiled.measured() && !tried) {
    return none;
  }
  std::vector<std::string> why =
      NotPayingBack(RequestsToPayBack(spec, traffic, experience), *within,
                    spec.buckets.size());
  why.resize(version_.plan.size());
  return why;
}

bool BucketCompiles::MorePaysBack() const {
  std::vector<int> left;
  for (int bucket = 0; bucket < version_.tiers.size(); ++bucket) {
    if (version_.tiers.slot(bucket).Read().fallback ==
        FallbackReason::kPayback) {
      left.push_back(bucket);
    }
  }
  if (left.empty()) return false;
  const std::vector<std::string> why = WhyNotPayingBack();
  return absl::c_any_of(left, [&](int bucket) {
    return why[static_cast<size_t>(bucket)].empty();
  });
}

void BucketCompiles::Submit(const WarmupStep& step) {
  const int bucket = step.bucket;
  version_.tiers.slot(bucket).SetState(BucketState::kCompiling);
  ++attempts_[static_cast<size_t>(bucket)];
  submitted_ = version_.deps.clock->Now();
  if (version_.deps.server_ready && version_.deps.server_ready()) {
    version_.deps.metrics->Counter(metric::kCompilesAfterReady).Add();
  }
  version_.deps.compiler->Submit(
      step.request,
      [inbox = inbox_, bucket,
       clock = version_.deps.clock](std::string_view phase) {
        const MonotonicTime now = clock->Now();
        absl::MutexLock lock(&inbox->mu);
        inbox->phases[static_cast<size_t>(bucket)] = {std::string(phase), now};
        MonotonicTime& began = inbox->began[static_cast<size_t>(bucket)];
        if (began == MonotonicTime::InfinitePast()) began = now;
      },
      [inbox = inbox_, bucket, clock = version_.deps.clock,
       telemetry = version_.deps.telemetry,
       work =
           WorkRecord{.name = "compile",
                      .model = version_.spec.name,
                      .version = version_.spec.version,
                      .bucket = step.name}](absl::StatusOr<CacheEntry> entry) {
        const MonotonicTime began = BeganAt(*inbox, bucket);
        if (began != MonotonicTime::InfinitePast()) {
          TellWork(telemetry, *clock, work, began, entry.status());
        }
        absl::MutexLock lock(&inbox->mu);
        inbox->arrivals.push_back({bucket, std::move(entry)});
      },
      version_.stop);
}

MonotonicTime BucketCompiles::BeganAt(Inbox& inbox, int bucket) {
  absl::MutexLock lock(&inbox.mu);
  return std::exchange(inbox.began[static_cast<size_t>(bucket)],
                       MonotonicTime::InfinitePast());
}

std::vector<BucketCompiles::Compiled> BucketCompiles::Await() {
  std::deque<Arrival> arrived;
  {
    const std::stop_callback wake(version_.stop, [inbox = inbox_] {
      absl::MutexLock lock(&inbox->mu);
      inbox->stopping = true;
    });
    absl::MutexLock lock(&inbox_->mu);
    auto awake = [inbox = inbox_.get()] {
      inbox->mu.AssertReaderHeld();
      return !inbox->arrivals.empty() || inbox->stopping;
    };
    version_.deps.clock->AwaitWithDeadline(&inbox_->mu, absl::Condition(&awake),
                                           MonotonicTime::InfiniteFuture());
    arrived.swap(inbox_->arrivals);
  }
  std::vector<Compiled> compiled;
  for (Arrival& arrival : arrived) {
    const WarmupStep& step = version_.plan[static_cast<size_t>(arrival.bucket)];
    if (arrival.entry.ok()) {
      budget_.Spend(absl::Seconds(arrival.entry->compile_seconds));
      compiled.push_back({&step, *std::move(arrival.entry)});
    } else if (!absl::IsCancelled(arrival.entry.status())) {
      Failed(step, arrival.entry.status());
    }
  }
  return compiled;
}

void BucketCompiles::Failed(const WarmupStep& step,
                            const absl::Status& status) {
  // Waiting for others included.
  budget_.SpendInVain(version_.deps.clock->Now() - submitted_);
  const FallbackReason reason = ReasonOfCompileError(status);
  if (reason == FallbackReason::kCompile &&
      attempts_[static_cast<size_t>(step.bucket)] < kCompileAttempts) {
    log::Warn("{} {}: compile failed, trying once more: {}",
              version_.spec.Label(), step.name, Std(status.message()));
    Submit(step);
    return;
  }
  version_.deps.metrics
      ->Counter(metric::kPromotions,
                With(VersionLabels(version_.spec), "outcome",
                     FallbackReasonName(FallbackReason::kCompile)))
      .Add();
  if (reason == FallbackReason::kRefused) {
    promoter_.KeepRefusal(step, std::string(status.message()));
  }
  version_.tiers.FallBack(step.bucket, reason, Std(status.message()));
}

BucketCompiles::Phase BucketCompiles::PhaseOf(int bucket) const {
  absl::MutexLock lock(&inbox_->mu);
  return inbox_->phases[static_cast<size_t>(bucket)];
}

}  // namespace stoker
