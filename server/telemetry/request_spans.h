// What is told of requests and of the server's work as spans of OpenTelemetry:
//
//   request                 of its client's trace, or of one of its own
//     decode, queue, run, answer
//   batch                   a trace of its own; links to the runs of its
//   requests,
//     assemble, run, split  which link to it
//   load, compile           a trace of its own each
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"
#include "otlp.pb.h"
#include "telemetry/request_record.h"
#include "telemetry/trace_context.h"
#include "telemetry/work_record.h"

namespace stoker {

class SpanMaker {
 public:
  SpanMaker();

  // A batch's span comes with the first of its requests, and links to those
  // that come together with it; later ones link to it alone.
  void AddRequests(absl::Span<const RequestRecord> records,
                   otlp::ScopeSpans& spans);
  void AddWork(const WorkRecord& record, otlp::ScopeSpans& spans) const;

 private:
  // Of which span a batch's is known before it is made.
  struct BatchIds {
    TraceId trace;
    uint64_t span;
  };
  BatchIds IdsOf(uint64_t batch) const;
  // Whether it has none yet; from now on it has.
  bool IsNewBatch(uint64_t batch);
  // Returns the run's span.
  uint64_t AddRequest(const RequestRecord& record, const TraceId& trace,
                      otlp::ScopeSpans& spans) const;
  void AddBatch(
      const RequestRecord& record,
      const google::protobuf::RepeatedPtrField<otlp::Span::Link>& links,
      otlp::ScopeSpans& spans) const;

  const uint64_t seed_;
  // Batches that have spans: the latest, in two generations.
  absl::flat_hash_set<uint64_t> recent_, older_;
};

}  // namespace stoker
