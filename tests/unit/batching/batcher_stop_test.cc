#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "base/thread.h"
#include "batching/batcher.h"
#include "batching/queue_timeout.h"
#include "tests/unit/batching/batcher_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

using BatcherStopTest = BatcherFixture;

TEST_F(BatcherStopTest, DrainsTheQueue) {
  StartBatcher(1, 1);
  OccupyOneThread();
  for (int i = 1; i < 4; ++i) ASSERT_TRUE(Submit(i, {{i}}).ok());
  Thread stopper("stopper",
                 [&] { batcher_->Stop(MonotonicTime::InfiniteFuture()); });
  clock_.BlockUntilWaiters(2);  // the timer and the drain
  EXPECT_EQ(Submit(9, {{1}}).code(), absl::StatusCode::kUnavailable);
  runner_.Release();
  stopper.Join();
  for (int i = 1; i < 4; ++i) ExpectRightAnswer(answers_.Get(i), {{i}});
  EXPECT_EQ(answers_.Count(9), 0u);
}

TEST_F(BatcherStopTest, EndsTheRestAtTheDeadlineAndWaitsForTheRun) {
  StartBatcher(1, 1);
  OccupyOneThread();
  ASSERT_TRUE(Submit(1, {{1}}).ok());
  std::atomic<bool> stopped = false;
  Thread stopper("stopper", [&] {
    batcher_->Stop(clock_.Now() + absl::Seconds(1));
    stopped.store(true);
  });
  clock_.BlockUntilWaiters(2);
  clock_.StepWall(absl::Hours(5));
  EXPECT_EQ(answers_.Count(1), 0u);
  clock_.StepWall(-absl::Hours(10));
  clock_.Advance(absl::Seconds(1));
  answers_.BlockUntilEnded(1);
  EXPECT_EQ(answers_.Code(1), absl::StatusCode::kUnavailable);
  EXPECT_EQ(answers_.Count(0), 0u);
  EXPECT_FALSE(stopped.load());
  runner_.Release();
  stopper.Join();
  ExpectRightAnswer(answers_.Get(0), {{1}});
}

TEST_F(BatcherStopTest, ASecondCallShortensTheFirst) {
  StartBatcher(1, 1);
  OccupyOneThread();
  ASSERT_TRUE(Submit(1, {{1}}).ok());
  Thread patient("patient",
                 [&] { batcher_->Stop(MonotonicTime::InfiniteFuture()); });
  clock_.BlockUntilWaiters(2);
  Thread hasty("hasty", [&] { batcher_->Stop(clock_.Now()); });
  answers_.BlockUntilEnded(1);
  EXPECT_EQ(answers_.Code(1), absl::StatusCode::kUnavailable);
  runner_.Release();
  patient.Join();
  hasty.Join();
  batcher_->Stop(MonotonicTime::InfiniteFuture());  // idempotent
}

TEST_F(BatcherStopTest, TheDestructorStopsNow) {
  StartBatcher(2, 1);
  ASSERT_TRUE(Submit(0, {{1}}).ok());
  batcher_.reset();
  EXPECT_EQ(answers_.Count(0), 1u);
}

TEST_F(BatcherStopTest, DeadlinesHoldDuringTheDrain) {
  StartBatcher(1, 1);
  OccupyOneThread();
  ASSERT_TRUE(Submit(1, {{1}}, clock_.Now() + absl::Seconds(1)).ok());
  Thread stopper("stopper",
                 [&] { batcher_->Stop(MonotonicTime::InfiniteFuture()); });
  clock_.BlockUntilWaiters(2);
  clock_.Advance(absl::Seconds(1));
  answers_.BlockUntilEnded(1);
  EXPECT_EQ(answers_.Get(1).status(), QueueTimeoutError());
  runner_.Release();
}

TEST_F(BatcherStopTest, SecondAttemptsEndAtTheDeadline) {
  StartBatcher(1, 8);
  OccupyOneThread();
  ASSERT_TRUE(Submit(1, {{kFailingId}}).ok());
  ASSERT_TRUE(Submit(2, {{1}}).ok());
  runner_.ReleaseThread(0);
  answers_.BlockUntilEnded(1);
  runner_.BlockUntilHeld(1);  // 1 and 2, together
  ASSERT_TRUE(Submit(3, {{1}}).ok());
  Thread stopper("stopper", [&] { batcher_->Stop(clock_.Now()); });
  answers_.BlockUntilEnded(2);  // 3: the deadline has passed
  runner_.Release();
  stopper.Join();
  for (int i = 1; i < 4; ++i) {
    EXPECT_EQ(answers_.Code(i), absl::StatusCode::kUnavailable) << i;
  }
}

TEST_F(BatcherStopTest, WorkThatHasNotBegunIsRefused) {
  StartBatcher(1, 1);
  OccupyOneThread();
  std::atomic<bool> ran = false;
  Thread caller("caller", [&] {
    const absl::Status status =
        batcher_->RunOnDeviceThread(0, [&] { ran.store(true); });
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("tokens:1"));
  });
  Thread stopper("stopper",
                 [&] { batcher_->Stop(MonotonicTime::InfiniteFuture()); });
  caller.Join();
  runner_.Release();
  stopper.Join();
  EXPECT_FALSE(ran.load());
}

}  // namespace
}  // namespace stoker
