// Sends spans of chosen requests, and of the server's own work, to a collector
// of OpenTelemetry, by OTLP over HTTP. Which requests, is found out when they
// are over, as that costs nothing while they are under way: a share of them,
// what a client's trace records, and what was slow. Records wait in a queue
// that is bounded, and a thread makes spans of them and sends: a collector that
// is down, slow or full costs spans, never a request.
//
// Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/http_client.h"
#include "base/thread.h"
#include "metrics/metrics.h"
#include "telemetry/record_queue.h"
#include "telemetry/request_record.h"
#include "telemetry/sampler.h"
#include "telemetry/trace_context.h"
#include "telemetry/work_record.h"

namespace stoker {

class SpanMaker;

struct TraceOptions {
  std::string endpoint;  // http://HOST[:PORT][/PATH]; empty: nothing is traced
  double sample = 0.01;  // share of the requests that come without a trace
  // Whoever takes longer is traced, chosen or not; zero: nobody.
  absl::Duration slow = absl::ZeroDuration();
  std::string server_version;
};

// What changes while it runs.
struct TraceSettings {
  bool on = false;    // else nothing is traced
  double sample = 0;  // as in TraceOptions
};

class Tracer {
 public:
  // Records that wait to be sent; more are dropped.
  static constexpr size_t kQueued = 8192;
  static constexpr char kPort[] = "4318";
  static constexpr char kPath[] = "/v1/traces";

  // INVALID_ARGUMENT: the endpoint is none. Nobody is asked yet. What is passed
  // by reference outlives it.
  static absl::StatusOr<std::unique_ptr<Tracer>> Open(
      const TraceOptions& options, MetricRegistry& metrics, Clock& clock);
  // Sends what waits, for no longer than a second.
  ~Tracer();

  // Whether a request that took so long is to be told of. `parent`: null where
  // it came without. Once for each.
  bool Wants(absl::Duration total, const TraceParent* parent) const;
  void Put(RequestRecord record);
  void Put(WorkRecord record);

  TraceSettings settings() const { return {on_.load(), sampler_.share()}; }
  TraceSettings initial_settings() const { return {true, options_.sample}; }
  void Change(const TraceSettings& settings);

 private:
  using Record = std::variant<RequestRecord, WorkRecord>;

  Tracer(const TraceOptions& options, HttpUrl url, MetricRegistry& metrics,
         Clock& clock);

  void PutAny(Record record);
  void SendLoop();
  void Send(std::vector<Record>& records);
  std::string Message(std::vector<Record>& records);
  // Until the collector has them, or it is in vain.
  absl::Status Deliver(const std::string& message);

  const TraceOptions options_;
  const HttpUrl url_;
  std::atomic<bool> on_ = true;
  Sampler sampler_;
  Counter sent_, full_, failed_;
  RecordQueue<Record> queue_;

  // Of the sender.
  const std::unique_ptr<SpanMaker> spans_;
  bool complained_ = false;

  Thread sender_;  // ends first
};

}  // namespace stoker
