// What became of the requests of one step. Times are of the steady clock, in
// ns.
//
// Which requests are measured: an open loop's by when they were due, so that
// those that a slow server delays past the end still count; a closed loop's by
// when they ended, as its rate is. The rate of answers is always by when they
// came.
#pragma once

#include <grpcpp/support/status_code_enum.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "loadtest/generator/histogram.h"

namespace stoker::loadtest {

// The steady clock.
int64_t NowNs();

// The end of one request.
struct Outcome {
  int64_t intended_ns = 0;  // when it was due; closed loop: when it was sent
  int64_t sent_ns = 0;
  int64_t done_ns = 0;
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string message;      // of an error
  bool retry_hint = false;  // the error's details carry google.rpc.RetryInfo
};

// "OK", "UNAVAILABLE", ...
std::string CodeName(grpc::StatusCode code);

struct Measurement {
  int64_t start_ns = 0, end_ns = 0;
  int64_t window_ns = 1'000'000'000;  // above 0; best when it divides the time
  int64_t slo_ns = 0;
  bool by_due_time = false;  // open loop
};

struct Recording {
  struct Errors {
    int64_t count = 0;
    int64_t with_retry_hint = 0;
    std::string example;
    Histogram latency;  // from when it was due
  };
  // One slice of the measured time, by when answers came.
  struct Window {
    int64_t ok = 0;
    int64_t failed = 0;
    int64_t latency_sum_ns = 0;  // of the OK answers
    int64_t latency_max_ns = 0;
  };

  int64_t total = 0;  // all requests, warm-up included
  int64_t total_ok = 0;
  int64_t measured = 0;
  int64_t measured_ok = 0;
  int64_t within_slo = 0;  // measured, OK and within the SLO's latency
  Histogram latency;       // of OK answers, from when they were due
  Histogram service;       // of OK answers, from when they were sent
  Histogram lag;           // of all measured: sent, after it was due
  std::map<grpc::StatusCode, Errors> errors;  // measured ones
  std::vector<Window> windows;

  void Add(const Recording& other);
};

// Not thread-safe: one per completion thread.
class Recorder {
 public:
  explicit Recorder(const Measurement& measurement);
  void Record(const Outcome& outcome);
  const Recording& recording() const { return recording_; }

 private:
  void RecordMeasured(const Outcome& outcome);
  void RecordWindow(const Outcome& outcome);

  const Measurement measurement_;
  Recording recording_;
};

}  // namespace stoker::loadtest
