// A bounded queue of tasks and the device threads that run them in batches.
// Knows tasks and buckets; knows nothing of models, torch or the wire.
//
// A device thread that is free runs the first task (by priority, then arrival)
// together with those that batching/batch_planner.h finds it cheapest to run
// with it. It waits for company only where a queue delay is configured.
//
// A run that is over sooner than a sleeping thread has woken up is made at once
// by the thread that brings the task, where nothing else waits or runs.
//
// A batch of several tasks that fails is run again task by task, so that the
// one that made it fail fails alone.
//
// Thread-safe. Every accepted task ends in exactly one on_done.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "batching/device_turns.h"
#include "batching/infer_task.h"
#include "batching/queue_policy.h"
#include "metrics/metrics.h"
#include "tensor/dim_expr.h"
#include "tensor/run_result.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

// How tasks' tensors are put together and cut apart. Constant for a version.
struct BatchLayout {
  struct Input {
    DataType dtype;
    std::vector<DimExpr> dims;  // none is unknown
    double pad_value = 0;  // fills what padding adds, but for rows of the batch
  };
  struct Output {
    DataType dtype;
    // With an unknown one anywhere, tasks run alone and in exactly their own
    // size: what padding did to such an output can't be undone.
    std::vector<DimExpr> dims;
  };
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::optional<int> batch_dimension;  // axis 0 of all inputs and outputs
  int64_t max_batch_rows = 1;          // tasks are put together up to this
  // Per dimension of the model: tasks of different sizes there may share a
  // batch. The batch dimension's own entry is not read; its sizes are summed.
  std::vector<bool> paddable;
};

// One run that gave an answer.
struct BatchReport {
  int bucket = -1;
  std::string_view tier;
  int requests = 0;
  int64_t rows = 0;  // padding excluded
  absl::Duration assemble, run, split;
};

// What runs a batch. Implemented by models::ModelVersion and by tests/fakes.
class BatchRunner {
 public:
  virtual ~BatchRunner() = default;

  struct Outcome {
    absl::StatusOr<RunResult> result = absl::UnknownError("not run");
    std::string_view tier = "eager";
    // What ran, where it has a name and is of no bucket; counted from the last
    // bucket on.
    int form = -1;
  };

  // The bucket that a batch of these sizes is padded to; -1: run as it is.
  // Pure, callable from any thread.
  virtual int Match(absl::Span<const int64_t> sizes) const = 0;
  virtual int bucket_count() const = 0;
  virtual const ShapeBucket& bucket(int index) const = 0;

  // Called once on each device thread before its first Run.
  virtual void StartThread(int thread) = 0;
  // Calls `wait`, which returns when device thread `thread` has something to
  // run again: what the runs compute with is not needed before. On that thread.
  virtual void Idle(int /*thread*/, absl::FunctionRef<void()> wait) { wait(); }
  // Memory that the inputs of device thread `thread`'s runs are put together
  // in. On that thread.
  virtual Buffer NewBuffer(int /*thread*/, size_t bytes) {
    return Buffer(bytes);
  }
  // Runs on device thread `thread`. Inputs are 64-byte aligned, padded to the
  // bucket, and valid until Run returns: outputs must own their memory.
  virtual Outcome Run(int thread, int bucket,
                      absl::Span<const Tensor> inputs) = 0;

  // Whether a run in `bucket` computes on the thread that calls it alone,
  // whichever that is: only then RunHere may be called. From any thread.
  virtual bool KeepsToThread(int bucket) const = 0;
  // As Run, on the calling thread in device thread 0's stead: never while that
  // one runs, never two at once.
  virtual Outcome RunHere(int bucket, absl::Span<const Tensor> inputs) = 0;

  // Called after each run that gave an answer, on the thread that made it,
  // before the on_done of its tasks.
  virtual void OnBatch(const BatchReport& /*report*/) {}
};

struct BatcherOptions {
  std::string name;       // thread names: "dev-<name>"
  int threads = 1;        // device threads (instances), at least 1
  int cores_per_run = 1;  // that one run uses, of the device's
  double weight = 1;      // share of the device against other models'
  DynamicBatching batching;
  Labels labels;  // model, version
};

class Batcher {
 public:
  // All that is passed by reference or pointer outlives this object. `turns`:
  // of each device, at least one; they have equally many device threads, the
  // first of them the first threads.
  Batcher(BatcherOptions options, BatchLayout layout, BatchRunner& runner,
          const std::vector<DeviceTurns*>& turns, Clock& clock,
          MetricSource& metrics);
  // Stop(now).
  ~Batcher();

  // Takes the task (leaves `task` null) on OK, when it may have ended already.
  // UNAVAILABLE "Exceeds maximum
  // queue size" when its priority level is full; UNAVAILABLE when stopped;
  // INVALID_ARGUMENT when the tensors are not what the layout says for the
  // task's sizes. On an error the task is untouched and its on_done is not
  // called.
  absl::Status Enqueue(std::unique_ptr<InferTask>& task);

  // What runs in the bucket from now on takes this long: until runs tell
  // better.
  void ResetCost(int bucket, absl::Duration run);

  // Ends every queued task whose `cancelled` is set, now.
  void SweepCancelled();

  // Runs `work` on device thread `thread` between two batches (promotion's
  // checks); returns when it ran. FAILED_PRECONDITION when stopped before it
  // began, INVALID_ARGUMENT when there is no such thread. Not from a device
  // thread.
  absl::Status RunOnDeviceThread(int thread, std::function<void()> work);

  // Refuses new tasks, runs the queued ones until `deadline`, ends the rest
  // with UNAVAILABLE, joins the threads (a run that has begun is waited for).
  // Idempotent; a second call with an earlier deadline shortens the first.
  void Stop(absl::Time deadline);

  int queue_length() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
