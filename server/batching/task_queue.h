// The tasks that wait, by priority and arrival. Takes out those that are to run
// and those whose time is over; never calls on_done itself.
//
// Not thread-safe: its owner's mutex guards it.
#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "base/monotonic_time.h"
#include "batching/batch.h"
#include "batching/batch_planner.h"
#include "batching/infer_task.h"
#include "batching/queue_policy.h"

namespace stoker {

// A task that left the queue without a run, and why.
struct EndedTask {
  std::unique_ptr<InferTask> task;
  absl::Status status;
};
// Tells them so. With no lock held.
void EndTasks(std::vector<EndedTask> ended);

class TaskQueue {
 public:
  explicit TaskQueue(const DynamicBatching& batching);

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // Takes the task on OK and sets its expiry from `now`. UNAVAILABLE "Exceeds
  // maximum queue size" when its priority level is full, by those that it
  // delayed, too.
  absl::Status Push(std::unique_ptr<InferTask>& task, MonotonicTime now);

  struct Taken {
    std::optional<Batch> batch;
    // Without a batch: the first task may wait until then for company.
    MonotonicTime wait_until = MonotonicTime::InfiniteFuture();
  };
  // The batch that is to run now. Cancelled and expired tasks on the way go to
  // `ended`. `may_wait`: there may be none yet, for a fuller one.
  Taken TakeBatch(const BatchRules& rules, BatchPlanner& planner,
                  MonotonicTime now, bool may_wait,
                  std::vector<EndedTask>& ended);

  void TakeCancelled(std::vector<EndedTask>& ended);
  // Also moves the tasks behind all others whose policy delays them. Returns
  // when the next task's time is over.
  MonotonicTime TakeExpired(MonotonicTime now, std::vector<EndedTask>& ended);
  void TakeAll(const absl::Status& status, std::vector<EndedTask>& ended);

 private:
  using Tasks = std::deque<std::unique_ptr<InferTask>>;
  // When the task has to leave its place in the queue.
  static MonotonicTime Due(const InferTask& task);
  const QueuePolicy& PolicyOf(size_t level) const;
  size_t LevelOf(const InferTask& task) const;
  // Takes out of a level's first `limit` tasks whoever is cancelled or whose
  // time is over.
  void TakeOverdue(size_t level, size_t limit, MonotonicTime now,
                   std::vector<EndedTask>& ended);
  std::vector<Candidate> Candidates(MonotonicTime now,
                                    std::vector<EndedTask>& ended);
  // The tasks at these ascending positions of all levels together.
  std::vector<std::unique_ptr<InferTask>> Remove(
      const std::vector<size_t>& positions);
  const InferTask& Front() const;
  // Is out of the queue from now on.
  void Leaves(const InferTask& task);

  DynamicBatching batching_;
  // By priority level, most urgent first; the last one has the delayed tasks.
  std::vector<Tasks> levels_;
  // By priority level, how many of its tasks are in the queue: in its place
  // there, or delayed.
  std::vector<size_t> waiting_;
  size_t size_ = 0;
};

// Whether somebody set the task's `cancelled`.
bool IsCancelled(const InferTask& task);
// What a task ends with that was cancelled, or whose batcher stopped before its
// turn came.
absl::Status CancelledStatus();
absl::Status StoppedStatus();

}  // namespace stoker
