// Runs batches: gather, run, check, cut the answers out, and the second
// attempts when a batch of several tasks fails.
//
// Not thread-safe: each device thread has its own, and the threads that bring
// tasks share one, used by one of them at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "batching/batch.h"
#include "batching/batch_layout.h"
#include "batching/batch_metrics.h"
#include "batching/batch_runner.h"
#include "batching/bucket_costs.h"
#include "batching/gather.h"
#include "metrics/metrics.h"

namespace stoker {

class BatchExecutor {
 public:
  // Of BatchRunner::RunHere, instead of a device thread.
  static constexpr int kHere = -1;

  // Everything passed by reference outlives this object. `abandon`: no second
  // attempts begin any more; their tasks end with UNAVAILABLE.
  BatchExecutor(int thread, const BatchRules& rules, BatchRunner& runner,
                BucketCosts& costs, Clock& clock, MetricSource& metrics,
                const Labels& labels, const std::atomic<bool>& abandon);

  // Runs the batch and keeps its answers, one for every task of it.
  void Execute(Batch batch);
  // Ends the tasks of the batches that ran since the last call.
  void Deliver();

 private:
  using Answers = std::vector<absl::StatusOr<InferResult>>;
  struct Answered {
    std::unique_ptr<InferTask> task;
    absl::StatusOr<InferResult> answer;
  };
  struct Timing {
    MonotonicTime begin, gathered, done;
  };

  // One run. OK: `answers` holds one per task. An error: the batch failed as a
  // whole, or it is not known which of its tasks made it fail.
  absl::Status Attempt(const Batch& batch, Answers& answers);
  absl::StatusOr<InferResult> ExecuteAlone(const Batch& alone);
  void Keep(std::unique_ptr<InferTask> task,
            absl::StatusOr<InferResult> answer);
  // Fills `answers`, faulty tasks' included.
  absl::Status Answer(const Batch& batch, absl::Span<const int64_t> sizes,
                      const RunResult& result, Answers& answers);
  void Record(const Batch& batch, const BatchRunner::Outcome& outcome,
              const Timing& timing, int64_t run_elements, Answers& answers);

  const int thread_;
  const BatchRules& rules_;
  const BatchLayout& layout_;
  BatchRunner& runner_;
  BucketCosts& costs_;
  Clock& clock_;
  const std::atomic<bool>& abandon_;
  BatchMetrics metrics_;
  Gatherer gatherer_;
  std::vector<Answered> answered_;
};

}  // namespace stoker
