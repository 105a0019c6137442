// Whoever wants to be told of single requests and of the server's own work,
// behind one question and one answer: where nobody does, a request costs a look
// at three of its members.
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
#include "telemetry/timeline_recorder.h"
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
  // The errors of RequestLog::Open and of Tracer::Open. What is passed by
  // reference outlives it.
  static absl::StatusOr<std::unique_ptr<Telemetry>> Open(
      const TelemetryOptions& options, MetricRegistry& metrics, Clock& clock);

  // Whether it is of interest who calls, and a client's trace.
  bool wants_callers() const {
    return log_ != nullptr || tracer_ != nullptr || recorder_.records();
  }
  bool traces() const { return tracer_ != nullptr; }

  // Of the tracer; off where there is none.
  TraceSettings trace_settings() const {
    return tracer_ == nullptr ? TraceSettings() : tracer_->settings();
  }
  TraceSettings initial_trace_settings() const {
    return tracer_ == nullptr ? TraceSettings() : tracer_->initial_settings();
  }
  // Where there is one.
  void SetTraces(const TraceSettings& settings) {
    if (tracer_ != nullptr) tracer_->Change(settings);
  }

  // Who is to be told of a request that ends so: once for each. `parent`: null
  // where it came without.
  struct Listeners {
    bool log = false;
    bool tracer = false;
    bool recorder = false;
    bool any() const { return log || tracer || recorder; }
  };
  Listeners Choose(bool failed, absl::Duration total,
                   const TraceParent* parent);

  // To those who were chosen.
  void Tell(Listeners listeners, RequestRecord record);
  // To who wants to know.
  void Tell(WorkRecord record);

  // For who asks for a timeline.
  TimelineRecorder& recorder() { return recorder_; }

 private:
  Telemetry(std::unique_ptr<RequestLog> log, std::unique_ptr<Tracer> tracer,
            Clock& clock)
      : log_(std::move(log)), tracer_(std::move(tracer)), recorder_(clock) {}

  // Null: there is none.
  const std::unique_ptr<RequestLog> log_;
  const std::unique_ptr<Tracer> tracer_;
  TimelineRecorder recorder_;
};

}  // namespace stoker
