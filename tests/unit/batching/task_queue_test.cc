#include "batching/task_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "batching/queue_timeout.h"
#include "tests/fakes/fake_batch_runner.h"
#include "tests/unit/batching/token_model.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TaskQueueTest : public ::testing::Test {
 protected:
  // A one-row task that its token count identifies.
  InferTask& Push(size_t tokens, absl::Duration deadline = absl::Hours(1)) {
    auto task = MakeTokenTask({std::vector<int64_t>(tokens, 1)});
    task->deadline = now_ + deadline;
    task->cancelled = std::make_shared<std::atomic<bool>>(false);
    InferTask& pushed = *task;
    EXPECT_TRUE(Push(std::move(task)).ok());
    return pushed;
  }

  absl::Status Push(std::unique_ptr<InferTask> task) {
    task->lane = rules_.LaneOf(*task);
    return queue_.Push(task, now_);
  }
  std::unique_ptr<InferTask> Task(size_t tokens, uint64_t priority) {
    auto task = MakeTokenTask({std::vector<int64_t>(tokens, 1)});
    task->priority = priority;
    return task;
  }

  // The batch that leaves, by its tasks' token counts.
  std::vector<int64_t> Take(bool may_wait = false) {
    std::vector<int64_t> tokens;
    TaskQueue::Taken taken =
        queue_.TakeBatch(rules_, planner_, now_, may_wait, ended_);
    wait_until_ = taken.wait_until;
    const std::optional<Batch>& batch = taken.batch;
    if (!batch) return tokens;
    for (const auto& task : batch->tasks) tokens.push_back(task->sizes[1]);
    return tokens;
  }

  std::vector<int64_t> Ended() {
    std::vector<int64_t> tokens;
    for (const EndedTask& end : ended_) tokens.push_back(end.task->sizes[1]);
    return tokens;
  }

  MonotonicTime now_ = MonotonicTime() + absl::Seconds(1000);
  const BatchLayout layout_ = TokenLayout(3);
  const FakeBatchRunner runner_{{{{3, 8}}}, {true, true}, RunTokenModel};
  const BatchRules rules_{layout_, runner_};
  BatchPlanner planner_{rules_.lanes(), 3};
  TaskQueue queue_{DynamicBatching()};
  MonotonicTime wait_until_;
  std::vector<EndedTask> ended_;
};

TEST_F(TaskQueueTest, BatchesLeaveInOrder) {
  for (size_t tokens : {1, 2, 3, 4}) Push(tokens);
  EXPECT_THAT(Take(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Take(), ElementsAre(4));
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(TaskQueueTest, TasksPassByOneThatDoesNotFitWithThem) {
  for (size_t tokens : {1, 9, 2}) Push(tokens);  // 9 is in no bucket
  EXPECT_THAT(Take(), ElementsAre(1, 2));
  EXPECT_THAT(Take(), ElementsAre(9));
}

TEST_F(TaskQueueTest, NobodyOvertakesWhereOrderIsPreserved) {
  queue_ = TaskQueue({.preserve_ordering = true});
  for (size_t tokens : {1, 9, 2}) Push(tokens);
  EXPECT_THAT(Take(), ElementsAre(1));
  EXPECT_THAT(Take(), ElementsAre(9));
  EXPECT_THAT(Take(), ElementsAre(2));
}

TEST_F(TaskQueueTest, TheMostUrgentLevelLeavesFirst) {
  queue_ = TaskQueue({.default_priority_level = 2, .policies = {{}, {}, {}}});
  for (const auto& [tokens, priority] :
       {std::pair{1, 3}, {2, 3}, {3, 0}, {4, 1}, {5, 9}, {6, 2}}) {
    ASSERT_TRUE(
        Push(Task(static_cast<size_t>(tokens), static_cast<uint64_t>(priority)))
            .ok());
  }
  EXPECT_THAT(Take(), ElementsAre(4, 3, 5));
  EXPECT_THAT(Take(), ElementsAre(6, 1, 2));
  EXPECT_TRUE(queue_.empty());
}

TEST_F(TaskQueueTest, EachLevelHasItsOwnBound) {
  queue_ = TaskQueue({.policies = {{.max_queue_size = 1}, {}}});
  EXPECT_TRUE(Push(Task(1, 1)).ok());
  EXPECT_EQ(Push(Task(2, 1)),
            absl::UnavailableError("Exceeds maximum queue size"));
  EXPECT_TRUE(Push(Task(3, 2)).ok());
  EXPECT_EQ(queue_.size(), 2u);
}

TEST_F(TaskQueueTest, ATimeoutShortensThePolicysOnly) {
  const auto expiry = [&](const QueuePolicy& policy, absl::Duration timeout) {
    queue_ = TaskQueue({.policies = {policy}});
    auto task = Task(1, 0);
    task->timeout = timeout;
    const InferTask& pushed = *task;
    EXPECT_TRUE(Push(std::move(task)).ok());
    return pushed.expiry - now_;
  };
  const QueuePolicy two{.default_timeout = absl::Seconds(2)};
  EXPECT_EQ(expiry(two, absl::InfiniteDuration()), absl::Seconds(2));
  EXPECT_EQ(expiry(two, absl::Seconds(1)), absl::Seconds(1));
  EXPECT_EQ(expiry(two, absl::Seconds(3)), absl::Seconds(2));
  const QueuePolicy fixed{.default_timeout = absl::Seconds(2),
                          .allow_timeout_override = false};
  EXPECT_EQ(expiry(fixed, absl::Seconds(1)), absl::Seconds(2));
}

TEST_F(TaskQueueTest, DelayedTasksRunWhenNothingElseWaits) {
  queue_ = TaskQueue({.policies = {{.timeout_action = TimeoutAction::kDelay,
                                    .default_timeout = absl::Seconds(2)}}});
  Push(9);  // in no bucket: it would leave first, alone
  Push(1);
  now_ += absl::Seconds(2);
  Push(2);
  Push(8, absl::Seconds(-1));
  EXPECT_EQ(queue_.TakeExpired(now_, ended_), now_ + absl::Seconds(2));
  EXPECT_THAT(Ended(), ElementsAre(8));  // its client has gone
  EXPECT_THAT(Take(), ElementsAre(2, 1));
  EXPECT_THAT(Take(), ElementsAre(9));
}

// Else a client whose requests are delayed fills memory with them.
TEST_F(TaskQueueTest, DelayedTasksCountForTheBoundOfTheirLevel) {
  const QueuePolicy delays = {.timeout_action = TimeoutAction::kDelay,
                              .default_timeout = absl::Seconds(2),
                              .max_queue_size = 2};
  queue_ = TaskQueue({.policies = {delays, delays}});
  const auto is_full = [this](int level) {
    return Push(Task(1, level)) ==
           absl::UnavailableError("Exceeds maximum queue size");
  };
  EXPECT_FALSE(is_full(1));
  EXPECT_TRUE(Push(Task(2, 1)).ok());
  now_ += absl::Seconds(2);
  queue_.TakeExpired(now_, ended_);  // both are delayed
  EXPECT_TRUE(is_full(1));
  EXPECT_FALSE(is_full(2));
  EXPECT_THAT(Take(), ElementsAre(1, 1, 2));
  EXPECT_TRUE(queue_.empty());
  // Whoever leaves early makes room, too.
  EXPECT_TRUE(Push(Task(3, 1)).ok());
  EXPECT_TRUE(Push(Task(4, 1)).ok());
  now_ += absl::Seconds(2);
  queue_.TakeExpired(now_, ended_);
  EXPECT_TRUE(is_full(1));
  queue_.TakeAll(StoppedStatus(), ended_);
  EXPECT_FALSE(is_full(1));
}

TEST_F(TaskQueueTest, WaitsForAFullerBatchThatIsCheaperPerRow) {
  queue_ = TaskQueue(
      {.max_queue_delay = absl::Milliseconds(5), .preferred_batch_sizes = {2}});
  Push(1);
  EXPECT_THAT(Take(/*may_wait=*/true), IsEmpty());
  EXPECT_EQ(wait_until_, now_ + absl::Milliseconds(5));
  EXPECT_EQ(queue_.size(), 1u);
  now_ += absl::Milliseconds(2);
  Push(2);
  EXPECT_THAT(Take(true), ElementsAre(1, 2));  // a preferred size
  for (size_t tokens : {3, 4, 5}) Push(tokens);
  EXPECT_THAT(Take(true), ElementsAre(3, 4, 5));  // full
  Push(6);
  EXPECT_THAT(Take(true), IsEmpty());
  now_ += absl::Milliseconds(5);
  EXPECT_THAT(Take(true), ElementsAre(6));
  Push(7);
  EXPECT_THAT(Take(/*may_wait=*/false), ElementsAre(7));
}

TEST_F(TaskQueueTest, TheWaitEndsBeforeTheTasksTime) {
  queue_ = TaskQueue({.max_queue_delay = absl::Seconds(5)});
  Push(1, absl::Seconds(1));
  EXPECT_THAT(Take(true), IsEmpty());
  EXPECT_EQ(wait_until_, now_ + absl::Seconds(1));
}

TEST_F(TaskQueueTest, ALongQueueLeavesInOrder) {
  for (int i = 0; i < 1000; ++i) Push(1 + static_cast<size_t>(i % 8));
  for (int i = 0; i < 999; i += 3) {
    EXPECT_THAT(Take(),
                ElementsAre(1 + i % 8, 1 + (i + 1) % 8, 1 + (i + 2) % 8));
  }
  EXPECT_EQ(queue_.size(), 1u);
}

TEST_F(TaskQueueTest, ABatchIsFormedWithoutCancelledAndExpiredTasks) {
  Push(1).cancelled->store(true);
  Push(2);
  Push(3, absl::ZeroDuration());
  Push(4);
  EXPECT_THAT(Take(), ElementsAre(2, 4));
  EXPECT_THAT(Ended(), ElementsAre(1, 3));
  EXPECT_EQ(ended_[0].status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ended_[1].status, QueueTimeoutError());
}

TEST_F(TaskQueueTest, NoBatchOfOverdueTasksAlone) {
  Push(1).cancelled->store(true);
  EXPECT_FALSE(queue_.TakeBatch(rules_, planner_, now_, false, ended_)
                   .batch.has_value());
  EXPECT_THAT(Ended(), ElementsAre(1));
}

TEST_F(TaskQueueTest, TakeCancelledKeepsTheOthersInOrder) {
  Push(1);
  Push(2).cancelled->store(true);
  Push(3, absl::ZeroDuration());  // expired, but not cancelled
  queue_.TakeCancelled(ended_);
  EXPECT_THAT(Ended(), ElementsAre(2));
  EXPECT_EQ(queue_.size(), 2u);
}

TEST_F(TaskQueueTest, TakeExpiredReturnsTheNextDeadline) {
  Push(1, absl::Seconds(3));
  Push(2, absl::ZeroDuration());
  Push(3, absl::Seconds(2));
  Push(4, absl::Seconds(-1));
  EXPECT_EQ(queue_.TakeExpired(now_, ended_), now_ + absl::Seconds(2));
  EXPECT_THAT(Ended(), ElementsAre(2, 4));
  EXPECT_THAT(Take(), ElementsAre(1, 3));
  EXPECT_EQ(queue_.TakeExpired(now_, ended_), MonotonicTime::InfiniteFuture());
}

TEST_F(TaskQueueTest, TakeAllEmptiesTheQueue) {
  Push(1);
  Push(2);
  queue_.TakeAll(absl::AbortedError("over"), ended_);
  EXPECT_THAT(Ended(), ElementsAre(1, 2));
  EXPECT_EQ(ended_[1].status, absl::AbortedError("over"));
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace stoker
