#include "batching/task_queue.h"

#include <algorithm>
#include <utility>

namespace stoker {
namespace {

// OK for a task that may go on waiting.
absl::Status Overdue(const InferTask& task, absl::Time now) {
  if (IsCancelled(task)) return CancelledStatus();
  if (task.deadline <= now) {
    // The code that Triton's clients know for a timeout in the queue.
    return absl::UnavailableError("Request timeout expired");
  }
  return absl::OkStatus();
}

// Moves the tasks that `judge` gives an error to `ended`; keeps the others'
// order.
template <typename Judge>
void TakeWhere(std::deque<std::unique_ptr<InferTask>>& tasks, Judge judge,
               std::vector<EndedTask>& ended) {
  auto kept = tasks.begin();
  for (std::unique_ptr<InferTask>& task : tasks) {
    absl::Status status = judge(*task);
    if (status.ok()) {
      if (&*kept != &task) *kept = std::move(task);
      ++kept;
    } else {
      ended.push_back({std::move(task), std::move(status)});
    }
  }
  tasks.erase(kept, tasks.end());
}

}  // namespace

void TaskQueue::Push(std::unique_ptr<InferTask> task) {
  tasks_.push_back(std::move(task));
}

std::optional<Batch> TaskQueue::TakeBatch(const BatchRules& rules,
                                          absl::Time now,
                                          std::vector<EndedTask>& ended) {
  std::optional<Batch> batch;
  while (!tasks_.empty()) {
    std::unique_ptr<InferTask>& task = tasks_.front();
    if (absl::Status status = Overdue(*task, now); !status.ok()) {
      ended.push_back({std::move(task), std::move(status)});
    } else if (!batch) {
      batch = rules.Begin(std::move(task), now);
    } else if (!rules.TryAdd(*batch, task)) {
      break;
    }
    tasks_.pop_front();
  }
  return batch;
}

void TaskQueue::TakeCancelled(std::vector<EndedTask>& ended) {
  TakeWhere(
      tasks_,
      [](const InferTask& task) {
        return IsCancelled(task) ? CancelledStatus() : absl::OkStatus();
      },
      ended);
}

absl::Time TaskQueue::TakeExpired(absl::Time now,
                                  std::vector<EndedTask>& ended) {
  absl::Time earliest = absl::InfiniteFuture();
  TakeWhere(
      tasks_,
      [&](const InferTask& task) {
        absl::Status status = Overdue(task, now);
        if (status.ok()) earliest = std::min(earliest, task.deadline);
        return status;
      },
      ended);
  return earliest;
}

void TaskQueue::TakeAll(const absl::Status& status,
                        std::vector<EndedTask>& ended) {
  for (std::unique_ptr<InferTask>& task : tasks_) {
    ended.push_back({std::move(task), status});
  }
  tasks_.clear();
}

bool IsCancelled(const InferTask& task) {
  return task.cancelled != nullptr &&
         task.cancelled->load(std::memory_order_relaxed);
}

absl::Status CancelledStatus() {
  return absl::CancelledError("the request was cancelled while it waited");
}

absl::Status StoppedStatus() {
  return absl::UnavailableError(
      "the model version stopped before the request could run");
}

}  // namespace stoker
