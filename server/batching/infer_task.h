// One request on its way through the queue.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tensor/shape_bucket.h"
#include "tensor/tensor.h"

namespace stoker {

struct InferResult {
  std::vector<Tensor> outputs;  // in the model's order, cut back to the request's size
  std::string_view tier;        // "eager" or "aot"
  int bucket = -1;              // index in the model's buckets; -1: none
  int64_t batch_rows = 0;       // rows in the batch it ran in
  absl::Duration queue, assemble, run, split;  // split: cutting the answer out
};

struct InferTask {
  std::vector<Tensor> inputs;  // in the model's order; their owners keep the bytes alive
  DimensionSizes sizes;        // per dimension of the model
  int64_t rows = 1;            // sizes[batch], or 1
  absl::Time enqueued;                                // set by the Batcher
  absl::Time deadline = absl::InfiniteFuture();       // in queue: DEADLINE_EXCEEDED after it
  // Set by anyone at any time; a task still queued then ends with CANCELLED.
  std::shared_ptr<std::atomic<bool>> cancelled;

  // Called exactly once for an accepted task, on a device thread (or on the thread that
  // calls Batcher::Cancelled/Stop). Must not block.
  std::function<void(absl::StatusOr<InferResult>)> on_done;
};

}  // namespace stoker
