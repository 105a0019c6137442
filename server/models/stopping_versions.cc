#include "models/stopping_versions.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/log.h"
#include "metrics/catalog.h"

namespace stoker {

struct StoppingVersions::One {
  bool AwaitEnd(Clock& clock) ABSL_LOCKS_EXCLUDED(mu) {
    const absl::MutexLock lock(&mu);
    return clock.AwaitWithDeadline(&mu, absl::Condition(&over),
                                   since + kStopWait);
  }
  bool IsOver() ABSL_LOCKS_EXCLUDED(mu) {
    const absl::MutexLock lock(&mu);
    return over;
  }

  std::string label;
  MonotonicTime since;

  absl::Mutex mu;
  bool over ABSL_GUARDED_BY(mu) = false;

  Thread loader;
  Thread thread;  // last
};

StoppingVersions::StoppingVersions(Clock& clock, MetricRegistry& metrics,
                                   std::shared_ptr<LifecycleEvents> events)
    : clock_(clock),
      aside_(metrics.Gauge(metric::kVersionsAside)),
      events_(std::move(events)) {}

StoppingVersions::~StoppingVersions() = default;

bool StoppingVersions::Stop(std::shared_ptr<ModelVersion> version,
                            Thread loader) {
  One& one = *ones_.emplace_back(std::make_unique<One>());
  one.label = version->spec().Label();
  one.since = clock_.Now();
  one.loader = std::move(loader);
  one.thread =
      Thread(absl::StrCat("stop-", one.label),
             [&one, events = events_, version = std::move(version)]() mutable {
               version->Stop(MonotonicTime::InfinitePast());
               one.loader.Join();
               version.reset();
               {
                 const absl::MutexLock lock(&one.mu);
                 one.over = true;
               }
               events->Post([] {});
             });
  if (one.AwaitEnd(clock_)) {
    ones_.pop_back();
    return true;
  }
  log::Warn(
      "{}: goes aside: a run of it can't be interrupted and hasn't ended; its "
      "threads and its memory stay until it does",
      one.label);
  aside_.Set(static_cast<double>(ones_.size()));
  return false;
}

void StoppingVersions::Reap() {
  const auto ended = [this](const std::unique_ptr<One>& one) {
    if (!one->IsOver()) return false;
    log::Info("{}: its last run has ended after {}; its memory is free",
              one->label, absl::FormatDuration(clock_.Now() - one->since));
    return true;
  };
  if (ones_.remove_if(ended) > 0) {
    aside_.Set(static_cast<double>(ones_.size()));
  }
}

void StoppingVersions::Join() {
  for (const auto& one : ones_) one->thread.Join();
  Reap();
}

}  // namespace stoker
