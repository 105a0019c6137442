#include "models/bucket_slot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "metrics/catalog.h"

namespace stoker {

std::string_view BucketStateName(BucketState state) {
  switch (state) {
    case BucketState::kPending:
      return "pending";
    case BucketState::kCompiling:
      return "compiling";
    case BucketState::kOpening:
      return "opening";
    case BucketState::kChecking:
      return "checking";
    case BucketState::kCompiled:
      return "compiled";
    case BucketState::kEager:
      return "eager";
  }
  return "?";
}

BucketSlot::BucketSlot(std::string name, MetricRegistry& metrics, Labels labels)
    : name_(std::move(name)),
      metrics_(metrics),
      labels_(std::move(labels)),
      saved_(metrics.Counter(metric::kSavedSeconds, labels_)) {
  absl::MutexLock lock(&mu_);
  EnterLocked(BucketState::kPending, "");
}

std::shared_ptr<Executable> BucketSlot::executable(int thread) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto index = static_cast<size_t>(thread);
  return index < executables_.size() ? executables_[index] : nullptr;
}

void BucketSlot::SetKey(std::string key) {
  absl::MutexLock lock(&mu_);
  now_.key = std::move(key);
}

void BucketSlot::SetState(BucketState state) {
  absl::MutexLock lock(&mu_);
  EnterLocked(state, "");
}

void BucketSlot::Promote(std::vector<std::shared_ptr<Executable>> executables,
                         const Verdict& verdict, double compile_seconds) {
  const double saved_per_run =
      std::max(0.0, verdict.incumbent_seconds - verdict.candidate_seconds);
  metrics_.Gauge(metric::kBucketCompileSeconds, labels_).Set(compile_seconds);
  if (saved_per_run > 0) {
    metrics_.Gauge(metric::kBreakEvenRuns, labels_)
        .Set(std::ceil(compile_seconds / saved_per_run));
  }
  metrics_.Gauge(metric::kParityError, labels_).Set(verdict.max_abs_error);
  metrics_.Gauge(metric::kSpeedup, labels_).Set(verdict.speedup);
  absl::MutexLock lock(&mu_);
  executables_.swap(executables);
  now_.verdict = verdict;
  saved_per_run_ = saved_per_run;
  EnterLocked(BucketState::kCompiled, "");
}

void BucketSlot::CountRun() {
  absl::ReaderMutexLock lock(&mu_);
  if (saved_per_run_ > 0) saved_.Add(saved_per_run_);
}

bool BucketSlot::Demote(std::string reason) {
  std::vector<std::shared_ptr<Executable>> old;  // destroyed without the lock
  absl::MutexLock lock(&mu_);
  old.swap(executables_);
  EnterLocked(BucketState::kEager, std::move(reason));
  return !old.empty();
}

BucketSlot::Snapshot BucketSlot::Read() const {
  absl::ReaderMutexLock lock(&mu_);
  return now_;
}

bool BucketSlot::settled() const {
  absl::ReaderMutexLock lock(&mu_);
  return IsSettled(now_.state);
}

void BucketSlot::EnterLocked(BucketState state, std::string detail) {
  Labels labels = labels_;
  if (state != now_.state) {
    labels["state"] = BucketStateName(now_.state);
    metrics_.Gauge(metric::kBucketState, labels).Set(0);
  }
  labels["state"] = BucketStateName(state);
  metrics_.Gauge(metric::kBucketState, labels).Set(1);
  now_.state = state;
  now_.detail = std::move(detail);
}

}  // namespace stoker
