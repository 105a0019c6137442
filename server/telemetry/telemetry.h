// Whoever wants to be told of single requests, behind one question and one
// answer: where nobody does, a request costs a look at a pointer.
//
// Thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "metrics/metrics.h"
#include "telemetry/request_log.h"
#include "telemetry/request_record.h"

namespace stoker {

struct TelemetryOptions {
  RequestLogOptions log;  // without a path there is none
};

class Telemetry {
 public:
  // Null where nobody wants to know. The errors of RequestLog::Open. What is
  // passed by reference outlives it.
  static absl::StatusOr<std::unique_ptr<Telemetry>> Open(
      const TelemetryOptions& options, MetricRegistry& metrics, Clock& clock);

  // Who is to be told of a request that ends so: once for each.
  struct Listeners {
    bool log = false;
    bool any() const { return log; }
  };
  Listeners Choose(bool failed);

  // To those who were chosen.
  void Tell(Listeners listeners, RequestRecord record);

 private:
  explicit Telemetry(std::unique_ptr<RequestLog> log) : log_(std::move(log)) {}

  const std::unique_ptr<RequestLog> log_;  // null: there is none
};

}  // namespace stoker
