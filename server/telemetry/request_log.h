// The request log: a line for each inference, or for a share of them, in a
// file. Who answers requests leaves a record in a queue that is bounded; a
// thread makes lines of them and writes. A file that takes no lines costs
// lines, never a request.
//
// Thread-safe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/monotonic_time.h"
#include "base/thread.h"
#include "metrics/metrics.h"
#include "telemetry/append_file.h"
#include "telemetry/record_queue.h"
#include "telemetry/request_line.h"
#include "telemetry/request_record.h"
#include "telemetry/sampler.h"

namespace stoker {

struct RequestLogOptions {
  std::string path;  // "-": the standard output
  LineFormat format = LineFormat::kJson;
  double sample = 1;  // share of all requests
  // Of failed requests, as many are logged a second, chosen or not.
  int failures_per_second = 100;
};

class RequestLog {
 public:
  // Records that wait to be written; more are dropped.
  static constexpr size_t kQueued = 8192;

  // The system's code: the file can't be opened. What is passed by reference
  // outlives it.
  static absl::StatusOr<std::unique_ptr<RequestLog>> Open(
      const RequestLogOptions& options, MetricRegistry& metrics, Clock& clock);
  // Writes what waits; where nobody reads a pipe, no longer than a second.
  ~RequestLog();

  // Whether there is to be a line of a request that has ended so. Once for
  // each.
  bool Wants(bool failed) ABSL_LOCKS_EXCLUDED(mu_);
  void Put(RequestRecord record);

 private:
  RequestLog(const RequestLogOptions& options, AppendFile file,
             MetricRegistry& metrics, Clock& clock);

  bool MayLogFailure() ABSL_LOCKS_EXCLUDED(mu_);
  void WriteLoop();
  void Write(const std::vector<RequestRecord>& records);
  void Complain(const absl::Status& status);

  const RequestLogOptions options_;
  const Sampler sampler_;
  Clock& clock_;
  Counter written_, full_, rate_, failed_;

  RecordQueue<RequestRecord> queue_;

  absl::Mutex mu_;
  MonotonicTime second_end_ ABSL_GUARDED_BY(mu_) =
      MonotonicTime::InfinitePast();
  int failures_ ABSL_GUARDED_BY(mu_) = 0;  // logged in that second

  // Of the writer.
  AppendFile file_;
  std::string lines_;
  bool complained_ = false;

  Thread writer_;  // ends first
};

}  // namespace stoker
