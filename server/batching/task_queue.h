// The tasks that wait, in the order of their arrival. Takes out those that are
// to run and those whose time is over; never calls on_done itself.
//
// Not thread-safe: its owner's mutex guards it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "batching/batch.h"
#include "batching/infer_task.h"

namespace stoker {

// A task that left the queue without a run, and why.
struct EndedTask {
  std::unique_ptr<InferTask> task;
  absl::Status status;
};

class TaskQueue {
 public:
  size_t size() const { return tasks_.size(); }
  bool empty() const { return tasks_.empty(); }

  void Push(std::unique_ptr<InferTask> task);

  // The oldest task and those behind it that may run with it. Cancelled and
  // expired tasks on the way go to `ended`. nullopt when no other was left.
  std::optional<Batch> TakeBatch(const BatchRules& rules, absl::Time now,
                                 std::vector<EndedTask>& ended);

  void TakeCancelled(std::vector<EndedTask>& ended);
  // Returns the earliest deadline among those that stay.
  absl::Time TakeExpired(absl::Time now, std::vector<EndedTask>& ended);
  void TakeAll(const absl::Status& status, std::vector<EndedTask>& ended);

 private:
  std::deque<std::unique_ptr<InferTask>> tasks_;
};

// Whether somebody set the task's `cancelled`.
bool IsCancelled(const InferTask& task);
// What a task ends with that was cancelled, or whose batcher stopped before its
// turn came.
absl::Status CancelledStatus();
absl::Status StoppedStatus();

}  // namespace stoker
