#include "batching/task_queue.h"

#include <algorithm>
#include <utility>

#include "batching/queue_timeout.h"

namespace stoker {
namespace {

// The planner looks at this many tasks at a time.
constexpr size_t kWindow = 128;

bool IsPreferred(const std::vector<int>& sizes, int64_t rows) {
  return std::find(sizes.begin(), sizes.end(), rows) != sizes.end();
}

}  // namespace

void EndTasks(std::vector<EndedTask> ended) {
  for (EndedTask& end : ended) end.task->on_done(std::move(end.status));
}

TaskQueue::TaskQueue(const DynamicBatching& batching)
    : batching_(batching),
      levels_(batching.policies.size() + 1),
      waiting_(batching.policies.size()) {}

size_t TaskQueue::LevelOf(const InferTask& task) const {
  const size_t levels = batching_.policies.size();
  const uint64_t priority = task.priority == 0 || task.priority > levels
                                ? batching_.default_priority_level
                                : task.priority;
  return static_cast<size_t>(priority) - 1;
}

const QueuePolicy& TaskQueue::PolicyOf(size_t level) const {
  return batching_.policies[std::min(level, batching_.policies.size() - 1)];
}

MonotonicTime TaskQueue::Due(const InferTask& task) {
  return std::min(task.deadline, task.expiry);
}

absl::Status TaskQueue::Push(std::unique_ptr<InferTask>& task,
                             MonotonicTime now) {
  const size_t level = LevelOf(*task);
  const QueuePolicy& policy = PolicyOf(level);
  if (waiting_[level] >= static_cast<size_t>(policy.max_queue_size)) {
    return absl::UnavailableError("Exceeds maximum queue size");
  }
  absl::Duration timeout = policy.default_timeout;
  if (policy.allow_timeout_override) timeout = std::min(timeout, task->timeout);
  task->enqueued = now;
  task->expiry = now + timeout;
  levels_[level].push_back(std::move(task));
  ++waiting_[level];
  ++size_;
  return absl::OkStatus();
}

void TaskQueue::Leaves(const InferTask& task) {
  --waiting_[LevelOf(task)];
  --size_;
}

void TaskQueue::TakeOverdue(size_t level, size_t limit, MonotonicTime now,
                            std::vector<EndedTask>& ended) {
  const bool delays = level + 1 < levels_.size() &&
                      PolicyOf(level).timeout_action == TimeoutAction::kDelay;
  Tasks& tasks = levels_[level];
  const auto end = tasks.begin() +
                   static_cast<std::ptrdiff_t>(std::min(limit, tasks.size()));
  auto kept = std::find_if(tasks.begin(), end, [&](const auto& task) {
    return IsCancelled(*task) || Due(*task) <= now;
  });
  for (auto it = kept; it != end; ++it) {
    std::unique_ptr<InferTask>& task = *it;
    if (IsCancelled(*task)) {
      Leaves(*task);
      ended.push_back({std::move(task), CancelledStatus()});
    } else if (Due(*task) > now) {
      if (kept != it) *kept = std::move(task);
      ++kept;
    } else if (delays && task->deadline > now) {
      task->expiry = MonotonicTime::InfiniteFuture();
      levels_.back().push_back(std::move(task));
    } else {
      Leaves(*task);
      ended.push_back({std::move(task), QueueTimeoutError()});
    }
  }
  tasks.erase(kept, end);
}

std::vector<Candidate> TaskQueue::Candidates(MonotonicTime now,
                                             std::vector<EndedTask>& ended) {
  std::vector<Candidate> candidates;
  candidates.reserve(std::min(size_, kWindow));
  for (size_t level = 0; level < levels_.size(); ++level) {
    if (candidates.size() >= kWindow) break;
    TakeOverdue(level, kWindow, now, ended);
    for (const std::unique_ptr<InferTask>& task : levels_[level]) {
      if (candidates.size() >= kWindow) break;
      candidates.push_back({task->lane, task->rows});
    }
  }
  return candidates;
}

const InferTask& TaskQueue::Front() const {
  for (const Tasks& tasks : levels_) {
    if (!tasks.empty()) return *tasks.front();
  }
  return *levels_.front().front();
}

std::vector<std::unique_ptr<InferTask>> TaskQueue::Remove(
    const std::vector<size_t>& positions) {
  std::vector<std::unique_ptr<InferTask>> taken;
  taken.reserve(positions.size());
  size_t begin = 0;  // position of the level's first task
  auto next = positions.begin();
  for (Tasks& tasks : levels_) {
    const size_t end = begin + tasks.size();
    const auto first = next;
    while (next != positions.end() && *next < end) {
      std::unique_ptr<InferTask>& task = tasks[*next++ - begin];
      Leaves(*task);
      taken.push_back(std::move(task));
    }
    if (next - first == static_cast<std::ptrdiff_t>(tasks.size())) {
      tasks.clear();
    } else if (next != first) {
      // Only in the stretch that tasks were taken from is anything moved.
      const auto from =
          tasks.begin() + static_cast<std::ptrdiff_t>(*first - begin);
      const auto to =
          tasks.begin() + static_cast<std::ptrdiff_t>(*(next - 1) - begin + 1);
      tasks.erase(std::remove(from, to, nullptr), to);
    }
    begin = end;
    if (next == positions.end()) break;
  }
  return taken;
}

TaskQueue::Taken TaskQueue::TakeBatch(const BatchRules& rules,
                                      BatchPlanner& planner, MonotonicTime now,
                                      bool may_wait,
                                      std::vector<EndedTask>& ended) {
  const std::vector<Candidate> candidates = Candidates(now, ended);
  if (candidates.empty()) return {};
  const BatchPlan plan = planner.Plan(candidates, batching_.preserve_ordering);
  if (may_wait && plan.gains_by_waiting &&
      !IsPreferred(batching_.preferred_batch_sizes, plan.rows)) {
    const InferTask& first = Front();
    const MonotonicTime until = first.enqueued + batching_.max_queue_delay;
    if (until > now) return {std::nullopt, std::min(until, Due(first))};
  }
  return {rules.Assemble(Remove(plan.tasks), plan.bucket, now)};
}

void TaskQueue::TakeCancelled(std::vector<EndedTask>& ended) {
  for (size_t level = 0; level < levels_.size(); ++level) {
    TakeOverdue(level, levels_[level].size(), MonotonicTime::InfinitePast(),
                ended);
  }
}

MonotonicTime TaskQueue::TakeExpired(MonotonicTime now,
                                     std::vector<EndedTask>& ended) {
  MonotonicTime earliest = MonotonicTime::InfiniteFuture();
  for (size_t level = 0; level < levels_.size(); ++level) {
    TakeOverdue(level, levels_[level].size(), now, ended);
  }
  for (const Tasks& tasks : levels_) {
    for (const std::unique_ptr<InferTask>& task : tasks) {
      earliest = std::min(earliest, Due(*task));
    }
  }
  return earliest;
}

void TaskQueue::TakeAll(const absl::Status& status,
                        std::vector<EndedTask>& ended) {
  for (Tasks& tasks : levels_) {
    for (std::unique_ptr<InferTask>& task : tasks) {
      ended.push_back({std::move(task), status});
    }
    tasks.clear();
  }
  std::fill(waiting_.begin(), waiting_.end(), 0);
  size_ = 0;
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
