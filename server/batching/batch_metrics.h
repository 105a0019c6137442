// What one device thread records about its batches.
//
// Not thread-safe: each device thread has its own. All record into the same
// metrics of the registry.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "metrics/metrics.h"

namespace stoker {

class BatchMetrics {
 public:
  // The registry outlives this object.
  BatchMetrics(MetricSource& registry, Labels labels);

  // Once per task, when its batch leaves the queue.
  void RecordQueued(absl::Duration waited);

  // Once per run that gave an answer. `elements` of all inputs: the tasks' own,
  // and those that the run had with padding.
  void RecordRun(std::string_view tier, absl::Duration run, size_t requests,
                 int64_t rows, int64_t useful_elements, int64_t run_elements);

  // Rows of requests, refused for their values.
  void RecordRowFaults(size_t rows);

 private:
  Histogram& ExecuteSeconds(std::string_view tier);

  MetricSource& registry_;
  const Labels labels_;
  Histogram queue_seconds_;
  Histogram batch_rows_;
  Histogram batch_requests_;
  Counter useful_elements_;
  Counter padded_elements_;
  Counter row_faults_;
  // A handful at most, each looked up when it first runs.
  std::vector<std::pair<std::string, Histogram>> execute_seconds_;
};

}  // namespace stoker
