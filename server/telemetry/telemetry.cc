#include "telemetry/telemetry.h"

#include "base/status_macros.h"

namespace stoker {

absl::StatusOr<std::unique_ptr<Telemetry>> Telemetry::Open(
    const TelemetryOptions& options, MetricRegistry& metrics, Clock& clock) {
  std::unique_ptr<RequestLog> log;
  std::unique_ptr<Tracer> tracer;
  if (!options.log.path.empty()) {
    ASSIGN_OR_RETURN(log, RequestLog::Open(options.log, metrics, clock));
  }
  if (!options.trace.endpoint.empty()) {
    ASSIGN_OR_RETURN(tracer, Tracer::Open(options.trace, metrics, clock));
  }
  return std::unique_ptr<Telemetry>(
      new Telemetry(std::move(log), std::move(tracer), clock));
}

Telemetry::Listeners Telemetry::Choose(bool failed, absl::Duration total,
                                       const TraceParent* parent) {
  Listeners listeners;
  listeners.log = log_ != nullptr && log_->Wants(failed);
  listeners.tracer = tracer_ != nullptr && tracer_->Wants(total, parent);
  listeners.recorder = recorder_.records();
  return listeners;
}

void Telemetry::Tell(Listeners listeners, RequestRecord record) {
  if (listeners.recorder) recorder_.Put(record);
  if (listeners.log && listeners.tracer) {
    log_->Put(record);
    tracer_->Put(std::move(record));
  } else if (listeners.log) {
    log_->Put(std::move(record));
  } else if (listeners.tracer) {
    tracer_->Put(std::move(record));
  }
}

void Telemetry::Tell(WorkRecord record) {
  if (recorder_.records()) recorder_.Put(record);
  if (tracer_ != nullptr) tracer_->Put(std::move(record));
}

}  // namespace stoker
