// Whoever wants to be told of single requests and of the server's own work,
// behind one question and one answer.
//
// Thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "telemetry/request_log.h"
#include "telemetry/request_record.h"
#include "telemetry/trace_context.h"
#include "telemetry/tracer.h"
#include "telemetry/work_record.h"

namespace stoker {

struct TelemetryOptions {
  RequestLogOptions log;  // without a path there is none
  TraceOptions trace;     // without an endpoint there are none
};

class Telemetry {
 public:
  // Null where nobody wants to know. The errors of RequestLog::Open and of
  // Tracer::Open. What is passed by reference outlives it.
  static absl::StatusOr<std::unique_ptr<Telemetry>> Open(
      const TelemetryOptions& options, MetricRegistry& metrics, Clock& clock);

  // Whether a client's trace is of interest.
  bool traces() const { return tracer_ != nullptr; }

  // Who is to be told of a request that ends so: once for each. `parent`: null
  // where it came without.
  struct Listeners {
    bool log = false;
    bool tracer = false;
    bool any() const { return log || tracer; }
  };
  Listeners Choose(bool failed, absl::Duration total,
                   const TraceParent* parent);

  // To those who were chosen.
  void Tell(Listeners listeners, RequestRecord record);
  // To who wants to know.
  void Tell(WorkRecord record);

 private:
  Telemetry(std::unique_ptr<RequestLog> log, std::unique_ptr<Tracer> tracer)
      : log_(std::move(log)), tracer_(std::move(tracer)) {}

  // Null: there is none.
  const std::unique_ptr<RequestLog> log_;
  const std::unique_ptr<Tracer> tracer_;
};

}  // namespace stoker
