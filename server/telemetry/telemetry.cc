#include "telemetry/telemetry.h"

#include "base/status_macros.h"

namespace stoker {

absl::StatusOr<std::unique_ptr<Telemetry>> Telemetry::Open(
    const TelemetryOptions& options, MetricRegistry& metrics, Clock& clock) {
  if (options.log.path.empty()) return nullptr;
  ASSIGN_OR_RETURN(std::unique_ptr<RequestLog> log,
                   RequestLog::Open(options.log, metrics, clock));
  return std::unique_ptr<Telemetry>(new Telemetry(std::move(log)));
}

Telemetry::Listeners Telemetry::Choose(bool failed) {
  Listeners listeners;
  listeners.log = log_ != nullptr && log_->Wants(failed);
  return listeners;
}

void Telemetry::Tell(Listeners listeners, RequestRecord record) {
  if (listeners.log) log_->Put(std::move(record));
}

}  // namespace stoker
