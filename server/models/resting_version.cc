#include "models/resting_version.h"

#include <algorithm>
#include <utility>

#include "batching/batch_layout.h"
#include "batching/queue_timeout.h"
#include "metrics/catalog.h"
#include "models/model_version.h"
#include "models/version_labels.h"

namespace stoker {

RestingVersion::RestingVersion(std::shared_ptr<const ModelSpec> spec,
                               std::shared_ptr<VersionStats> stats,
                               std::shared_ptr<MetricScope> series,
                               Clock& clock, std::function<void()> wake)
    : spec_(std::move(spec)),
      series_(std::move(series)),
      stats_(std::move(stats)),
      table_(spec_->buckets, Paddable(*spec_)),
      clock_(clock),
      wake_(std::move(wake)),
      waited_(series_->Histogram(metric::kColdWaitSeconds,
                                 VersionLabels(*spec_))) {}

RestingVersion::~RestingVersion() {
  Fail(absl::UnavailableError("the version is gone"));
}

absl::Status RestingVersion::Submit(std::unique_ptr<InferTask>& task) {
  if (absl::Status fits = CheckSizes(*spec_, table_, task->sizes); !fits.ok()) {
    return fits;
  }
  std::shared_ptr<ModelVersion> serving;
  bool news = false;
  {
    const absl::MutexLock lock(&mu_);
    serving = serving_.lock();
    if (serving == nullptr) {
      if (!failed_.ok()) return failed_;
      news = std::none_of(waiting_.begin(), waiting_.end(),
                          [deadline = task->deadline](const Waiting& other) {
                            return other.task->deadline <= deadline;
                          });
      waiting_.push_back({std::move(task), clock_.Now()});
    }
  }
  if (serving != nullptr) return serving->Submit(task);
  if (news) wake_();
  return absl::OkStatus();
}

void RestingVersion::SweepCancelled() {
  std::shared_ptr<ModelVersion> serving;
  Ended ended;
  {
    const absl::MutexLock lock(&mu_);
    serving = serving_.lock();
    ended = TakeExpiredLocked();
  }
  End(ended);
  if (serving != nullptr) serving->SweepCancelled();
}

void RestingVersion::Rest() {
  const absl::MutexLock lock(&mu_);
  serving_.reset();
  failed_ = absl::OkStatus();
}

void RestingVersion::Serve(const std::shared_ptr<ModelVersion>& version) {
  std::vector<Waiting> waiting;
  {
    const absl::MutexLock lock(&mu_);
    serving_ = version;
    failed_ = absl::OkStatus();
    waiting.swap(waiting_);
  }
  for (Waiting& one : waiting) {
    waited_.Observe(absl::ToDoubleSeconds(clock_.Now() - one.since));
    // Holds the version as a request does that found it serving.
    one.task->on_done = [version, done = std::move(one.task->on_done)](
                            absl::StatusOr<InferResult> result) {
      done(std::move(result));
    };
    const absl::Status taken = version->Submit(one.task);
    if (!taken.ok()) one.task->on_done(taken);
  }
}

void RestingVersion::Fail(const absl::Status& why) {
  Ended ended;
  {
    const absl::MutexLock lock(&mu_);
    serving_.reset();
    failed_ = why;
    for (Waiting& one : waiting_) ended.emplace_back(std::move(one), why);
    waiting_.clear();
  }
  End(ended);
}

bool RestingVersion::any_wait() const {
  const absl::MutexLock lock(&mu_);
  return !waiting_.empty();
}

MonotonicTime RestingVersion::EndExpired() {
  MonotonicTime next = MonotonicTime::InfiniteFuture();
  Ended ended;
  {
    const absl::MutexLock lock(&mu_);
    ended = TakeExpiredLocked();
    for (const Waiting& one : waiting_) {
      next = std::min(next, one.task->deadline);
    }
  }
  End(ended);
  return next;
}

RestingVersion::Ended RestingVersion::TakeExpiredLocked() {
  Ended ended;
  const MonotonicTime now = clock_.Now();
  for (Waiting& one : waiting_) {
    const InferTask& task = *one.task;
    if (task.cancelled != nullptr && task.cancelled->load()) {
      ended.emplace_back(std::move(one),
                         absl::CancelledError("the client has gone"));
    } else if (task.deadline <= now) {
      ended.emplace_back(std::move(one), QueueTimeoutError());
    }
  }
  std::erase_if(waiting_,
                [](const Waiting& one) { return one.task == nullptr; });
  return ended;
}

void RestingVersion::End(const Ended& ended) {
  for (const auto& [one, why] : ended) one.task->on_done(why);
}

}  // namespace stoker
