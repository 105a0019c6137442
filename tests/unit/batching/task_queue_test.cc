#include "batching/task_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

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
    queue_.Push(std::move(task));
    return pushed;
  }

  std::vector<int64_t> Take() {
    std::vector<int64_t> tokens;
    const std::optional<Batch> batch = queue_.TakeBatch(rules_, now_, ended_);
    if (!batch) return tokens;
    for (const auto& task : batch->tasks) tokens.push_back(task->sizes[1]);
    return tokens;
  }

  std::vector<int64_t> Ended() {
    std::vector<int64_t> tokens;
    for (const EndedTask& end : ended_) tokens.push_back(end.task->sizes[1]);
    return tokens;
  }

  const absl::Time now_ = absl::FromUnixSeconds(1000);
  const BatchLayout layout_ = TokenLayout(3);
  const FakeBatchRunner runner_{{{{3, 8}}}, {true, true}, RunTokenModel};
  const BatchRules rules_{layout_, runner_};
  TaskQueue queue_;
  std::vector<EndedTask> ended_;
};

TEST_F(TaskQueueTest, BatchesLeaveInOrder) {
  for (size_t tokens : {1, 2, 3, 4}) Push(tokens);
  EXPECT_THAT(Take(), ElementsAre(1, 2, 3));
  EXPECT_THAT(Take(), ElementsAre(4));
  EXPECT_THAT(Take(), IsEmpty());
}

TEST_F(TaskQueueTest, NobodyOvertakesATaskThatDoesNotFit) {
  for (size_t tokens : {1, 9, 2}) Push(tokens);  // 9 is in no bucket
  EXPECT_THAT(Take(), ElementsAre(1));
  EXPECT_THAT(Take(), ElementsAre(9));
  EXPECT_THAT(Take(), ElementsAre(2));
}

TEST_F(TaskQueueTest, ABatchIsFormedWithoutCancelledAndExpiredTasks) {
  Push(1).cancelled->store(true);
  Push(2);
  Push(3, absl::ZeroDuration());
  Push(4);
  EXPECT_THAT(Take(), ElementsAre(2, 4));
  EXPECT_THAT(Ended(), ElementsAre(1, 3));
  EXPECT_EQ(ended_[0].status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ended_[1].status,
            absl::UnavailableError("Request timeout expired"));
}

TEST_F(TaskQueueTest, NoBatchOfOverdueTasksAlone) {
  Push(1).cancelled->store(true);
  EXPECT_FALSE(queue_.TakeBatch(rules_, now_, ended_).has_value());
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
  EXPECT_EQ(queue_.TakeExpired(now_, ended_), absl::InfiniteFuture());
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
