#include "compile_broker/compile_metrics.h"

#include "metrics/catalog.h"

namespace stoker {

CompileMetrics::CompileMetrics(MetricRegistry& registry)
    : registry_(registry),
      worker_starts_(registry.Counter(metric::kCompileWorkerStarts)),
      lock_waits_(registry.Histogram(metric::kCacheLockWaitSeconds)),
      waiting_(registry.Gauge(metric::kCompileQueue, {{"state", "waiting"}})),
      running_(registry.Gauge(metric::kCompileQueue, {{"state", "running"}})),
      parked_(registry.Gauge(metric::kCompileQueue, {{"state", "parked"}})) {}

void CompileMetrics::Ended(std::string_view outcome, absl::Duration took) {
  registry_
      .Histogram(metric::kCompileSeconds, {{"outcome", std::string(outcome)}})
      .Observe(absl::ToDoubleSeconds(took));
}

void CompileMetrics::Phases(const std::map<std::string, double>& seconds) {
  for (const auto& [phase, value] : seconds) {
    registry_.Histogram(metric::kCompilePhaseSeconds, {{"phase", phase}})
        .Observe(value);
  }
}

void CompileMetrics::LockWaited(absl::Duration took) {
  lock_waits_.Observe(absl::ToDoubleSeconds(took));
}

void CompileMetrics::SetQueue(int waiting, int running, size_t parked) {
  waiting_.Set(waiting);
  running_.Set(running);
  parked_.Set(static_cast<double>(parked));
}

}  // namespace stoker
