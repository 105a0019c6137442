// What became of one inference, for who is told of single requests. Names and
// figures; never a value of a tensor.
//
// A value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "telemetry/trace_context.h"

namespace stoker {

struct RequestRecord {
  // "grpc", "stream" (a message of one) or "http".
  std::string_view protocol = "grpc";
  // The client's, escaped and cut; empty: it gave none, or wasn't heard.
  std::string id;
  std::string peer;    // as Peer::shown
  std::string caller;  // the policy's name for him; empty: there is no policy

  // As the client wrote it, escaped and cut, where `version` is 0: it reached
  // none.
  std::string model;
  int64_t version = 0;
  std::string bucket;     // empty: outside all buckets, or not run
  std::string_view tier;  // empty: not run
  int64_t rows = 0;
  int64_t batch_rows = 0;  // of the batch that it ran in

  std::optional<TraceParent> parent;  // of the client's trace

  size_t bytes_in = 0;   // of the request's message
  size_t bytes_out = 0;  // of the answer's

  absl::Time arrived;
  absl::Duration total;  // arrival to answer
  // Of what has run; else zero. `dequeued` and `begun`: after the arrival, when
  // it left the queue and when the work on its batch began.
  absl::Duration queue, assemble, run, split, dequeued, begun;
  uint64_t batch = 0;  // the process's number for it
  int thread = -1;     // of its device that ran it; -1: one of gRPC's

  // Of a pipeline, in the order in which they ended.
  struct Step {
    std::string name;
    std::string_view tier;
    absl::Duration after;  // the arrival, when its inputs were there
    absl::Duration total, queue, run;
    uint64_t batch = 0;
  };
  std::vector<Step> steps;

  absl::StatusCode status = absl::StatusCode::kOk;
  // The reason, where it can't hold a value; else empty.
  std::string error;
};

}  // namespace stoker
