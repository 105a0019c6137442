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

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "batching/batch_layout.h"
#include "batching/batch_runner.h"
#include "batching/infer_task.h"
#include "batching/queue_policy.h"
#include "batching/run_turns.h"
#include "metrics/metrics.h"

namespace stoker {

struct BatcherOptions {
  std::string name;       // thread names: "dev-<name>"
  int threads = 1;        // device threads (instances), at least 1
  int share_per_run = 1;  // of the device's capacity (device_turns.h)
  double weight = 1;      // share of the device against other models'
  DynamicBatching batching;
  Labels labels;  // model, version
};

class Batcher {
 public:
  // All that is passed by reference or pointer outlives this object, but for
  // `devices`: what a run on each needs, at least one; they have equally many
  // device threads, the first of them the first threads.
  Batcher(BatcherOptions options, BatchLayout layout, BatchRunner& runner,
          const std::vector<RunDemand>& devices, Clock& clock,
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
  void Stop(MonotonicTime deadline);

  int queue_length() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
