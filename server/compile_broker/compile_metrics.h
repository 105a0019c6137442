// The broker's metrics. Private to this room; thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "metrics/metrics.h"

namespace stoker {

class CompileMetrics {
 public:
  explicit CompileMetrics(MetricRegistry& registry);

  // outcome: "ok", "failed", "refused", "timeout", "memory" or "crashed".
  void Ended(std::string_view outcome, absl::Duration took);
  void Phases(const std::map<std::string, double>& seconds);
  // Another process had a key's lock for so long.
  void LockWaited(absl::Duration took);
  void WorkerStarted() { worker_starts_.Add(); }
  void SetQueue(int waiting, int running, size_t parked);

 private:
  MetricRegistry& registry_;
  Counter worker_starts_;
  Histogram lock_waits_;
  Gauge waiting_;
  Gauge running_;
  Gauge parked_;
};

}  // namespace stoker
