// Which tasks may run together, and the tasks that do.
//
// BatchRules is immutable and thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/monotonic_time.h"
#include "batching/batch_layout.h"
#include "batching/batch_runner.h"
#include "batching/infer_task.h"
#include "batching/lanes.h"
#include "tensor/shape_bucket.h"

namespace stoker {

struct Batch {
  std::vector<std::unique_ptr<InferTask>> tasks;  // at least one
  // Per dimension, what the tasks need together: the sum of rows in the batch
  // dimension, the largest elsewhere.
  DimensionSizes sizes;
  int bucket = -1;        // that the sizes are padded to; -1: none
  int64_t rows = 0;       // of all tasks
  MonotonicTime started;  // when it left the queue
};

class BatchRules {
 public:
  // Both outlive this object.
  BatchRules(const BatchLayout& layout, const BatchRunner& runner);

  // INVALID_ARGUMENT unless the task's tensors have the layout's count and
  // dtypes, and the shapes that its dimensions have at the task's sizes.
  absl::Status CheckTask(const InferTask& task) const;

  // The lane of a task; -1: it shares no batch.
  int LaneOf(const InferTask& task) const;
  // The smallest bucket that holds the task; -1: it runs in its own sizes.
  int BucketAlone(const InferTask& task) const;
  // A batch of one, in that bucket.
  Batch Begin(std::unique_ptr<InferTask> task, MonotonicTime now) const;
  // A batch of these tasks in the bucket that was planned for them; -1 only for
  // a task alone, which gets the smallest.
  Batch Assemble(std::vector<std::unique_ptr<InferTask>> tasks, int bucket,
                 MonotonicTime now) const;

  // The sizes that the batch's inputs get. INTERNAL when the bucket that the
  // runner matched does not hold the batch.
  absl::StatusOr<DimensionSizes> RunSizes(const Batch& batch) const;

  const BatchLayout& layout() const { return layout_; }
  const Lanes& lanes() const { return lanes_; }

 private:
  const BatchLayout& layout_;
  const BatchRunner& runner_;
  // An output of unknown size: exact sizes only.
  const bool exact_;
  // The batch dimension is axis 0 of every tensor and nothing else in them.
  const bool mergeable_;
  const Lanes lanes_;
};

}  // namespace stoker
