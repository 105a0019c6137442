// One request on its way through the queue.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/monotonic_time.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

// What became of one step of a pipeline.
struct StepRun {
  std::string name;
  std::string_view tier;  // as InferResult's
  MonotonicTime submitted;
  absl::Duration queue, run, total;
  uint64_t batch = 0;
};

// Memory that a task takes on its way, beside its inputs and its outputs.
// Thread-safe.
class TaskMemory {
 public:
  virtual ~TaskMemory() = default;
  // RESOURCE_EXHAUSTED: there is no room.
  virtual absl::Status Take(size_t bytes) = 0;
  virtual void Give(size_t bytes) = 0;
};

struct InferResult {
  // In the model's order, cut back to the request's size. They may show a part
  // of the batch's memory, which their owners keep alive.
  std::vector<Tensor> outputs;
  std::string_view tier;  // of the executable: "eager", "aot", ...
  // Index in the model's buckets; of what fits none, of the dynamic form that
  // served it, which are counted on from there; -1: neither.
  int bucket = -1;
  int64_t batch_rows = 0;  // rows in the batch it ran in, padding excluded
  // Waiting, putting the batch's inputs together, its run, cutting its answers
  // out.
  absl::Duration queue, assemble, run, split;
  // When it left the queue, and when the work on its batch began: later than
  // that where others of the batch failed, and it ran again alone.
  MonotonicTime started, begun;
  uint64_t batch = 0;  // the process's number for it
  int thread = -1;     // that ran it; -1: the one that brought a task
  // Of a pipeline, in the order in which they ended; the durations above are
  // sums over them.
  std::vector<StepRun> steps;
};

struct InferTask {
  std::vector<Tensor>
      inputs;  // in the model's order; their owners keep the bytes alive
  DimensionSizes sizes;  // per dimension of the model
  int64_t rows = 1;      // sizes[batch], or 1
  // A task still queued then ends with UNAVAILABLE "Request timeout expired".
  MonotonicTime deadline = MonotonicTime::InfiniteFuture();
  // How long it may wait in the queue, where the queue's policy lets the
  // request say so; infinite: it doesn't say.
  absl::Duration timeout = absl::InfiniteDuration();
  // 1 is the most urgent. 0, or more than the queue has: the queue's default.
  uint64_t priority = 0;
  // Set by anyone at any time; a task still queued then ends with CANCELLED, at
  // the next Batcher::SweepCancelled or when its turn comes. May be null.
  std::shared_ptr<std::atomic<bool>> cancelled;
  // Nobody else asks the server for anything at present: there is no company
  // that this task could wait for, and nobody whom its run could keep waiting.
  bool alone = false;
  // The thread that brings it may run it at once; not one that is in the middle
  // of something else, as in another task's on_done.
  bool may_run_here = true;
  // Null: nobody counts. Outlives the task.
  TaskMemory* memory = nullptr;

  // Called exactly once for an accepted task, with no lock held: on a device
  // thread, on the batcher's timer thread, or inside Enqueue, SweepCancelled or
  // Stop.
  // Must not block, and must not call Stop or RunOnDeviceThread.
  std::function<void(absl::StatusOr<InferResult>)> on_done;

  // Set by the Batcher.
  MonotonicTime enqueued;
  MonotonicTime expiry =
      MonotonicTime::InfiniteFuture();  // of its time in the queue
  int lane = -1;                        // batching/lanes.h
};

}  // namespace stoker
