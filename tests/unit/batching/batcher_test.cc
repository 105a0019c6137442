#include "batching/batcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>
#include <tuple>
#include <vector>

#include "base/thread.h"
#include "batching/queue_timeout.h"
#include "tests/fakes/tensors.h"
#include "tests/unit/batching/batcher_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

// Threads, max_batch_rows, seed of the order in which runs complete.
class CompletionOrderTest
    : public BatcherFixture,
      public ::testing::WithParamInterface<std::tuple<int, int, int>> {};

TEST_P(CompletionOrderTest, EveryAnswerIsRightAndBatchesAreInOrder) {
  const auto [threads, max_rows, order_seed] = GetParam();
  constexpr int kTasks = 20;
  StartBatcher(threads, max_rows);
  runner_.Hold();
  const auto ids = [](int number) { return Ids{{number + 1, number + 2}}; };
  for (int i = 0; i < threads; ++i) {  // one run at each thread's gate
    ASSERT_TRUE(Submit(i, ids(i)).ok());
    runner_.BlockUntilHeld(i + 1);
  }
  for (int i = threads; i < kTasks; ++i) ASSERT_TRUE(Submit(i, ids(i)).ok());

  std::vector<int> order(static_cast<size_t>(threads));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + order_seed % threads, order.end());
  if (order_seed % 2 == 1) std::reverse(order.begin(), order.end());
  size_t ended = 0;
  int waiting = kTasks - threads;
  for (int thread : order) {  // each takes the next batch from the queue
    runner_.ReleaseThread(thread);
    answers_.BlockUntilEnded(++ended);
    waiting -= std::min(waiting, max_rows);
    const int held = threads - static_cast<int>(ended);
    runner_.BlockUntilHeld(held);
  }
  runner_.Release();
  answers_.BlockUntilEnded(kTasks);

  for (int i = 0; i < kTasks; ++i) {
    EXPECT_EQ(answers_.Count(i), 1u);
    ExpectRightAnswer(answers_.Get(i), ids(i));
  }
  int64_t rows = 0;
  for (const BatchReport& report : runner_.reports()) {
    EXPECT_LE(report.rows, max_rows);
    rows += report.rows;
  }
  EXPECT_EQ(rows, kTasks);
  const int full = (kTasks - threads + max_rows - 1) / max_rows;
  EXPECT_EQ(runner_.runs().size(), static_cast<size_t>(threads + full));
}

INSTANTIATE_TEST_SUITE_P(All, CompletionOrderTest,
                         ::testing::Combine(::testing::Values(1, 2, 4),
                                            ::testing::Values(1, 3, 8),
                                            ::testing::Values(0, 1, 2, 3)));

using BatcherTest = BatcherFixture;

TEST_F(BatcherTest, MixedLengthsShareABatchAndAreCutApart) {
  StartBatcher(1, 8);
  OccupyOneThread();
  ASSERT_TRUE(Submit(1, {{1, 2, 3}, {4, 5, 6}}).ok());
  ASSERT_TRUE(Submit(2, {{7, 8, 9, 10, 11}}).ok());
  ASSERT_TRUE(Submit(3, {{12}}).ok());
  runner_.Release();
  answers_.BlockUntilEnded(4);
  ExpectRightAnswer(answers_.Get(1), {{1, 2, 3}, {4, 5, 6}});
  ExpectRightAnswer(answers_.Get(2), {{7, 8, 9, 10, 11}});
  ExpectRightAnswer(answers_.Get(3), {{12}});
  ASSERT_EQ(runner_.runs().size(), 2u);
  EXPECT_EQ(runner_.runs()[1].bucket, 2);
  EXPECT_THAT(runner_.runs()[1].shapes,
              ElementsAre(Shape({8, 16}), Shape({8})));
  EXPECT_EQ(answers_.Get(1)->batch_rows, 4);
  EXPECT_EQ(answers_.Get(1)->bucket, 2);
  EXPECT_EQ(answers_.Get(1)->tier, "aot");
}

TEST_F(BatcherTest, ATaskWithoutABucketRunsAloneUnpadded) {
  StartBatcher(1, 8);
  OccupyOneThread();
  const Ids ids(1, std::vector<int64_t>(17, 1));
  ASSERT_TRUE(Submit(1, ids).ok());
  ASSERT_TRUE(Submit(2, {{1}}).ok());
  runner_.Release();
  answers_.BlockUntilEnded(3);
  ExpectRightAnswer(answers_.Get(1), ids);
  EXPECT_EQ(answers_.Get(1)->bucket, -1);
  EXPECT_EQ(answers_.Get(1)->tier, "eager");
  EXPECT_EQ(runner_.runs()[1].shapes[0], Shape({1, 17}));
}

TEST_F(BatcherTest, AnExactAlignedTaskReachesTheRunnerUncopied) {
  StartBatcher(1, 8);
  auto task = MakeTokenTask({{1, 2, 3, 4}});
  const std::byte* const ids = task->inputs[0].data;
  const std::byte* const bias = task->inputs[1].data;
  task->on_done = answers_.Slot(0);
  ASSERT_TRUE(batcher_->Enqueue(task).ok());
  answers_.BlockUntilEnded(1);
  EXPECT_THAT(runner_.runs()[0].data, ElementsAre(ids, bias));
}

TEST_F(BatcherTest, EveryThreadStartsOnceBeforeItsRuns) {
  StartBatcher(3, 1);
  runner_.Hold();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Submit(i, {{1}}).ok());
  runner_.BlockUntilHeld(3);
  EXPECT_THAT(runner_.started(), UnorderedElementsAre(0, 1, 2));
  runner_.Release();
}

TEST_F(BatcherTest, RefusesWhatTheQueueHasNoRoomFor) {
  batching_.policies[0].max_queue_size = 2;
  StartBatcher(1, 8);
  OccupyOneThread();
  ASSERT_TRUE(Submit(1, {{1}}).ok());
  ASSERT_TRUE(Submit(2, {{1}}).ok());
  EXPECT_EQ(batcher_->queue_length(), 2);
  EXPECT_EQ(Metric("stoker_queue_length"), 2);
  EXPECT_EQ(Submit(3, {{1}}),
            absl::UnavailableError("Exceeds maximum queue size"));
  runner_.Release();
  answers_.BlockUntilEnded(3);
  EXPECT_EQ(batcher_->queue_length(), 0);
  EXPECT_EQ(Metric("stoker_queue_length"), 0);
  EXPECT_EQ(answers_.Count(3), 0u);
}

TEST_F(BatcherTest, ARefusedTaskStaysWithItsOwner) {
  StartBatcher(1, 8);
  auto task = MakeTokenTask({{1, 2}});
  task->on_done = answers_.Slot(0);
  task->inputs[0].shape = {2, 1};
  const absl::Status status = batcher_->Enqueue(task);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("[1,2]"));
  ASSERT_NE(task, nullptr);
  EXPECT_EQ(answers_.Count(0), 0u);
}

TEST_F(BatcherTest, ATaskExpiresWhileAllThreadsAreBusy) {
  StartBatcher(1, 8);
  OccupyOneThread();
  const MonotonicTime now = clock_.Now();
  ASSERT_TRUE(Submit(1, {{1}}, now + absl::Milliseconds(10)).ok());
  ASSERT_TRUE(Submit(2, {{1}}, now + absl::Milliseconds(5)).ok());
  ASSERT_TRUE(Submit(3, {{1}}).ok());
  clock_.Advance(absl::Milliseconds(5));
  answers_.BlockUntilEnded(1);
  EXPECT_THAT(answers_.order(), ElementsAre(2));
  EXPECT_EQ(answers_.Get(2).status(), QueueTimeoutError());
  clock_.Advance(absl::Milliseconds(5));
  answers_.BlockUntilEnded(2);
  EXPECT_THAT(answers_.order(), ElementsAre(2, 1));
  EXPECT_EQ(batcher_->queue_length(), 1);
  runner_.Release();
  answers_.BlockUntilEnded(4);
  EXPECT_TRUE(answers_.Get(3).ok());
}

TEST_F(BatcherTest, AStepOfTheTimeOfDayExpiresNothing) {
  batching_.max_queue_delay = absl::Seconds(30);
  StartBatcher(1, 8);
  for (int bucket = 0; bucket < 3; ++bucket) {  // company is worth waiting for
    batcher_->ResetCost(bucket, absl::Milliseconds(1));
  }
  const MonotonicTime now = clock_.Now();
  ASSERT_TRUE(Submit(1, {{1}}, now + absl::Seconds(20)).ok());
  ASSERT_TRUE(Submit(2, {{1, 2}}).ok());
  clock_.BlockUntilWaiters(2);  // the timer and the device thread
  clock_.StepWall(absl::Hours(24));
  clock_.BlockUntilWaiters(2);
  clock_.StepWall(-absl::Hours(48));
  clock_.Advance(absl::Seconds(20) - absl::Nanoseconds(1));
  clock_.BlockUntilWaiters(2);
  EXPECT_EQ(batcher_->queue_length(), 2);
  clock_.Advance(absl::Nanoseconds(1));
  answers_.BlockUntilEnded(1);
  EXPECT_EQ(answers_.Get(1).status(), QueueTimeoutError());
  clock_.Advance(absl::Seconds(10));
  answers_.BlockUntilEnded(2);
  EXPECT_TRUE(answers_.Get(2).ok());
}

TEST_F(BatcherTest, ADeadlineThatPassedBeforeIsAnExpiryToo) {
  StartBatcher(1, 8);
  ASSERT_TRUE(Submit(1, {{1}}, clock_.Now()).ok());
  answers_.BlockUntilEnded(1);
  EXPECT_EQ(answers_.Code(1), absl::StatusCode::kUnavailable);
}

TEST_F(BatcherTest, ATaskThatRunsIsNotExpired) {
  StartBatcher(1, 8);
  runner_.Hold();
  ASSERT_TRUE(Submit(1, {{1}}, clock_.Now() + absl::Seconds(1)).ok());
  runner_.BlockUntilHeld(1);
  clock_.Advance(absl::Seconds(2));
  clock_.BlockUntilWaiters(1);  // the timer has looked
  EXPECT_EQ(answers_.Count(1), 0u);
  runner_.Release();
  answers_.BlockUntilEnded(1);
  EXPECT_TRUE(answers_.Get(1).ok());
}

TEST_F(BatcherTest, SweepEndsCancelledTasksAtOnce) {
  StartBatcher(1, 8);
  OccupyOneThread();
  CancelFlag(1).store(true);
  std::atomic<bool>& second = CancelFlag(2);
  ASSERT_TRUE(Submit(1, {{1}}).ok());
  ASSERT_TRUE(Submit(2, {{1}}).ok());
  batcher_->SweepCancelled();
  EXPECT_THAT(answers_.order(), ElementsAre(1));
  EXPECT_EQ(answers_.Code(1), absl::StatusCode::kCancelled);
  second.store(true);  // without a sweep: dropped when its turn comes
  runner_.Release();
  answers_.BlockUntilEnded(3);
  EXPECT_EQ(answers_.Code(2), absl::StatusCode::kCancelled);
  EXPECT_EQ(runner_.runs().size(), 1u);
}

TEST_F(BatcherTest, OnDoneMayEnqueueAgain) {
  StartBatcher(1, 8);
  auto task = MakeTokenTask({{1}});
  task->on_done = [this](Answers::Answer answer) {
    EXPECT_TRUE(answer.ok());
    batcher_->SweepCancelled();
    EXPECT_TRUE(Submit(1, {{2}}).ok());
  };
  ASSERT_TRUE(batcher_->Enqueue(task).ok());
  answers_.BlockUntilEnded(1);
  ExpectRightAnswer(answers_.Get(1), {{2}});
}

TEST_F(BatcherTest, MeasuresQueueAndRun) {
  StartBatcher(1, 8);
  OccupyOneThread();
  ASSERT_TRUE(Submit(1, {{1, 2, 3}}).ok());
  clock_.Advance(absl::Milliseconds(30));
  runner_.ReleaseThread(0);
  answers_.BlockUntilEnded(1);
  runner_.BlockUntilHeld(1);  // the second run
  clock_.Advance(absl::Milliseconds(7));
  runner_.Release();
  answers_.BlockUntilEnded(2);
  const auto answer = answers_.Get(1);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->queue, absl::Milliseconds(30));
  EXPECT_EQ(answer->run, absl::Milliseconds(7));
  EXPECT_EQ(answer->assemble, absl::ZeroDuration());
  EXPECT_EQ(answer->split, absl::ZeroDuration());

  EXPECT_EQ(Metric("stoker_queue_seconds"), 2);
  EXPECT_EQ(Metric("stoker_execute_seconds"), 2);
  EXPECT_EQ(Metric("stoker_batch_rows"), 2);
  EXPECT_EQ(Metric("stoker_batch_requests"), 2);
  // ids and bias of a 1 x 1 and a 1 x 3 task, both in the 1 x 4 bucket.
  EXPECT_EQ(Metric("stoker_batch_useful_elements_total"), 2 + 4);
  EXPECT_EQ(Metric("stoker_batch_padded_elements_total"), 3 + 1);
}

TEST_F(BatcherTest, ReportsEachRun) {
  StartBatcher(1, 8);
  OccupyOneThread();
  ASSERT_TRUE(Submit(1, {{1}, {2}}).ok());
  ASSERT_TRUE(Submit(2, {{3}}).ok());
  runner_.Release();
  answers_.BlockUntilEnded(3);
  const auto reports = runner_.reports();
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[1].requests, 2);
  EXPECT_EQ(reports[1].rows, 3);
  EXPECT_EQ(reports[1].bucket, 1);
  EXPECT_EQ(reports[1].tier, "aot");
}

TEST_F(BatcherTest, WorkRunsOnTheDeviceThreadBetweenBatches) {
  StartBatcher(2, 1);
  runner_.Hold();
  ASSERT_TRUE(Submit(0, {{1}}).ok());
  runner_.BlockUntilHeld(1);
  const int busy = runner_.runs()[0].thread;
  const int idle = 1 - busy;
  std::vector<std::thread::id> ids(2);
  const auto note = [&](int thread) {
    return [&, thread] {
      ids[static_cast<size_t>(thread)] = std::this_thread::get_id();
    };
  };
  ASSERT_TRUE(batcher_->RunOnDeviceThread(idle, note(idle)).ok());

  std::atomic<bool> ran = false;
  Thread caller("caller", [&] {
    EXPECT_TRUE(batcher_->RunOnDeviceThread(busy, note(busy)).ok());
    ran.store(true);
  });
  // The idle thread has come round again, the busy one cannot have.
  ASSERT_TRUE(batcher_->RunOnDeviceThread(idle, [] {}).ok());
  EXPECT_FALSE(ran.load());
  runner_.Release();
  caller.Join();
  EXPECT_TRUE(ran.load());
  EXPECT_EQ(answers_.Count(0), 1u);  // the run came first
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_NE(ids[0], std::this_thread::get_id());
  EXPECT_NE(ids[1], std::this_thread::get_id());
}

// Two threads on each of two devices: who has all of the first doesn't keep the
// threads of the second from serving the one queue.
TEST_F(BatcherTest, ThreadsTakeTheTurnsOfTheirOwnDevice) {
  DeviceTurns second{16, clock_};
  devices_ = {{"cuda:0", &turns_}, {"cuda:1", &second}};
  DeviceTurns::Client other(turns_, /*cores=*/16, /*weight=*/1);
  DeviceTurns::Turn all = DeviceTurns::Take(other);
  StartBatcher(4, 1);
  for (int i = 0; i < 8; ++i) ASSERT_TRUE(Submit(i, {{i}}).ok());
  answers_.BlockUntilEnded(8);
  for (const auto& run : runner_.runs()) EXPECT_GE(run.thread, 2);
  all.End();
  DeviceTurns::Client all_of_second(second, /*cores=*/16, /*weight=*/1);
  all = DeviceTurns::Take(all_of_second);
  for (int i = 8; i < 16; ++i) ASSERT_TRUE(Submit(i, {{i}}).ok());
  answers_.BlockUntilEnded(16);
  const auto runs = runner_.runs();
  for (size_t i = 8; i < runs.size(); ++i) EXPECT_LT(runs[i].thread, 2);
  all.End();
  batcher_.reset();  // before the second device goes
}

TEST_F(BatcherTest, WorkNeedsAThreadThatExists) {
  StartBatcher(2, 1);
  for (int thread : {-1, 2}) {
    const absl::Status status = batcher_->RunOnDeviceThread(thread, [] {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("0 to 1"));
  }
}

}  // namespace
}  // namespace stoker
