#include "models/bucket_slot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
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
    case BucketState::kDynamic:
      return "dynamic";
    case BucketState::kEager:
      return "eager";
  }
  return "?";
}

BucketSlot::BucketSlot(std::string name, MetricSource& metrics, Labels labels)
    : name_(std::move(name)),
      metrics_(metrics),
      labels_(std::move(labels)),
      saved_(metrics.Counter(metric::kSavedSeconds, labels_)) {
  absl::MutexLock lock(&mu_);
  EnterLocked(BucketState::kPending, FallbackReason::kNone, "");
}

std::shared_ptr<Executable> BucketSlot::executable(int thread) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto index = static_cast<size_t>(thread);
  if (index < graphs_.size()) return graphs_[index];
  return index < compiled_.size() ? compiled_[index] : nullptr;
}

std::shared_ptr<Executable> BucketSlot::executable(int thread,
                                                   bool all_threads) const {
  return !all_threads && NeedsAllThreads() ? nullptr : executable(thread);
}

bool BucketSlot::NeedsAllThreads() const {
  absl::ReaderMutexLock lock(&mu_);
  return !compiled_.empty() && !now_.verdict.profit.worth_on_fewer;
}

std::shared_ptr<Executable> BucketSlot::compiled(int thread) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto index = static_cast<size_t>(thread);
  return index < compiled_.size() ? compiled_[index] : nullptr;
}

std::vector<std::shared_ptr<Executable>> BucketSlot::all_compiled() const {
  absl::ReaderMutexLock lock(&mu_);
  return compiled_;
}

bool BucketSlot::AddGraphs(
    const std::vector<std::shared_ptr<Executable>>& compiled,
    std::vector<std::shared_ptr<Executable>> graphs, double gain,
    int64_t bytes) {
  absl::MutexLock lock(&mu_);
  if (compiled_ != compiled || compiled_.size() != graphs.size()) return false;
  graphs_.swap(graphs);
  now_.graph = absl::StrFormat("%.2f x compiled, %.1f MiB", gain,
                               static_cast<double>(bytes) / (1 << 20));
  now_.graph_gain = gain;
  now_.graph_bytes = bytes;
  metrics_.Gauge(metric::kGraphBytes, labels_).Set(static_cast<double>(bytes));
  return true;
}

void BucketSlot::DropGraphs(std::string reason) {
  std::vector<std::shared_ptr<Executable>> old;  // destroyed without the lock
  absl::MutexLock lock(&mu_);
  old = TakeGraphsLocked(std::move(reason));
}

std::vector<std::shared_ptr<Executable>> BucketSlot::TakeGraphsLocked(
    std::string why) {
  if (!graphs_.empty()) metrics_.Gauge(metric::kGraphBytes, labels_).Set(0);
  now_.graph = std::move(why);
  now_.graph_gain = 0;
  now_.graph_bytes = 0;
  return std::exchange(graphs_, {});
}

void BucketSlot::SetKey(std::string key) {
  absl::MutexLock lock(&mu_);
  now_.key = std::move(key);
}

void BucketSlot::SetState(BucketState state) {
  absl::MutexLock lock(&mu_);
  EnterLocked(state, FallbackReason::kNone, "");
}

void BucketSlot::Promote(std::vector<std::shared_ptr<Executable>> executables,
                         const Verdict& verdict, const CacheEntry& entry) {
  const double saved_per_run = std::max(
      0.0, verdict.profit.incumbent_seconds - verdict.profit.candidate_seconds);
  metrics_.Gauge(metric::kBucketCompileSeconds, labels_)
      .Set(entry.compile_seconds);
  if (saved_per_run > 0) {
    metrics_.Gauge(metric::kBreakEvenRuns, labels_)
        .Set(std::ceil(entry.compile_seconds / saved_per_run));
  }
  metrics_.Gauge(metric::kParityError, labels_)
      .Set(verdict.parity.max_abs_error);
  metrics_.Gauge(metric::kSpeedup, labels_).Set(verdict.profit.speedup);
  ArtifactId artifact = entry.id();
  // Destroyed without the lock.
  std::shared_ptr<const void> lease = entry.lease;
  std::vector<std::shared_ptr<Executable>> old;
  absl::MutexLock lock(&mu_);
  compiled_.swap(executables);
  lease_.swap(lease);
  old = TakeGraphsLocked("");  // of the forms that were
  now_.verdict = verdict;
  now_.artifact = std::move(artifact);
  saved_per_run_ = saved_per_run;
  EnterLocked(BucketState::kCompiled, FallbackReason::kNone, "");
}

void BucketSlot::Judge(const Verdict& verdict) {
  absl::MutexLock lock(&mu_);
  if (compiled_.empty()) return;
  metrics_.Gauge(metric::kSpeedup, labels_).Set(verdict.profit.speedup);
  now_.verdict = verdict;
}

void BucketSlot::CountRun() {
  absl::ReaderMutexLock lock(&mu_);
  if (saved_per_run_ > 0) saved_.Add(saved_per_run_);
}

void BucketSlot::CountRun(absl::Duration run) {
  absl::ReaderMutexLock lock(&mu_);
  const double gain = now_.verdict.profit.speedup - 1;
  if (gain > 0) saved_.Add(gain * absl::ToDoubleSeconds(run));
}

void BucketSlot::SetFloor(BucketState floor) {
  absl::MutexLock lock(&mu_);
  if (now_.state == floor || !IsSettled(now_.state) ||
      now_.state == BucketState::kCompiled) {
    return;
  }
  EnterLocked(floor, now_.fallback, now_.detail);
}

bool BucketSlot::Demote(FallbackReason reason, std::string_view why) {
  // Destroyed without the lock, graphs before what they are of.
  std::shared_ptr<const void> lease;
  std::vector<std::shared_ptr<Executable>> old;
  std::vector<std::shared_ptr<Executable>> graphs;
  absl::MutexLock lock(&mu_);
  old.swap(compiled_);
  graphs = TakeGraphsLocked("");
  lease.swap(lease_);
  now_.artifact.reset();
  EnterLocked(BucketState::kEager, reason, FallbackText(reason, why));
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

void BucketSlot::EnterLocked(BucketState state, FallbackReason reason,
                             std::string detail) {
  Labels labels = labels_;
  if (state != now_.state) {
    labels["state"] = BucketStateName(now_.state);
    metrics_.Gauge(metric::kBucketState, labels).Set(0);
  }
  labels["state"] = BucketStateName(state);
  metrics_.Gauge(metric::kBucketState, labels).Set(1);
  now_.state = state;
  now_.fallback = reason;
  now_.detail = std::move(detail);
}

}  // namespace stoker
