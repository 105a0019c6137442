// Versions that stop. A run can't be interrupted, and may never end: each
// version is stopped on a thread of its own, for which others wait a moment
// only. One that isn't over by then goes aside: its threads and its memory stay
// until its run ends, and everything else goes on.
//
// Not thread-safe: of the lifecycle thread.
#pragma once

#include <list>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/thread.h"
#include "metrics/metrics.h"
#include "models/lifecycle_events.h"
#include "models/model_version.h"

namespace stoker {

// What the loads and unloads of all models wait for one that stops.
inline constexpr absl::Duration kStopWait = absl::Seconds(1);

class StoppingVersions {
 public:
  // `events` are called by whoever calls Reap, before it.
  StoppingVersions(Clock& clock, MetricRegistry& metrics,
                   std::shared_ptr<LifecycleEvents> events);
  ~StoppingVersions();

  // Stops it, refusing what is queued, and waits for `loader`'s end, for
  // kStopWait at most. False: it has gone aside.
  bool Stop(std::shared_ptr<ModelVersion> version, Thread loader);
  // Forgets those whose run has ended; one that ends posts an event.
  void Reap();
  // Waits for all of them.
  void Join();

 private:
  struct One;

  Clock& clock_;
  Gauge aside_;
  const std::shared_ptr<LifecycleEvents> events_;
  std::list<std::unique_ptr<One>> ones_;
};

}  // namespace stoker
