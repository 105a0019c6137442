// Runs that the thread which brings a task makes itself: when, and who waits
// for them meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/thread.h"
#include "batching/batcher.h"
#include "batching/device_turns.h"
#include "tests/fakes/fake_clock.h"
#include "tests/unit/batching/batcher_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;

// Whoever asks for the time next stays until the gate opens; others pass.
class GatedClock : public FakeClock {
 public:
  MonotonicTime Now() override {
    absl::MutexLock lock(&mu_);
    if (gate_ == Gate::kSet) {
      gate_ = Gate::kHolds;
      const auto open = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
        return gate_ == Gate::kOpen;
      };
      mu_.Await(absl::Condition(&open));
    }
    return FakeClock::Now();
  }

  void HoldNext() {
    absl::MutexLock lock(&mu_);
    gate_ = Gate::kSet;
  }
  void BlockUntilHeld() {
    absl::MutexLock lock(&mu_);
    const auto holds = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return gate_ == Gate::kHolds;
    };
    mu_.Await(absl::Condition(&holds));
  }
  void Open() {
    absl::MutexLock lock(&mu_);
    gate_ = Gate::kOpen;
  }

 private:
  enum class Gate { kOpen, kSet, kHolds };
  absl::Mutex mu_;
  Gate gate_ ABSL_GUARDED_BY(mu_) = Gate::kOpen;
};

class QuickRunTest : public BatcherFixture {
 protected:
  static constexpr int kHere = FakeBatchRunner::kHere;

  // Task 0 runs on the device thread: how long a run takes is known afterwards.
  void StartMeasured(absl::Duration run, int threads = 1) {
    runner_.KeepToThread();
    runner_.TakeTime(clock_, run);
    StartBatcher(threads, 8);
    Enqueue(0);
    answers_.BlockUntilEnded(1);
    AwaitIdle();
    ASSERT_THAT(Threads(), ElementsAre(0));
  }

  // on_done comes before the thread has nothing to do any more.
  void AwaitIdle() {
    ASSERT_TRUE(batcher_->RunOnDeviceThread(0, [] {}).ok());
  }

  void Enqueue(int number, bool alone = false) {
    auto task = MakeTokenTask({{number}});
    task->alone = alone;
    task->on_done = answers_.Slot(number);
    ASSERT_TRUE(batcher_->Enqueue(task).ok());
  }

  void ExpectRight(int number) {
    ASSERT_EQ(answers_.Count(number), 1u);
    ExpectRightAnswer(answers_.Get(number), {{number}});
  }

  std::vector<int> Threads() const {
    std::vector<int> threads;
    for (const auto& run : runner_.runs()) threads.push_back(run.thread);
    return threads;
  }
};

TEST_F(QuickRunTest, AnswersBeforeEnqueueReturns) {
  StartMeasured(absl::Microseconds(19));
  Enqueue(1);
  ExpectRight(1);
  EXPECT_THAT(Threads(), ElementsAre(0, kHere));
  EXPECT_EQ(runner_.reports().back().run, absl::Microseconds(19));
}

TEST_F(QuickRunTest, ALongerRunIsTheDeviceThreads) {
  StartMeasured(absl::Microseconds(21));
  Enqueue(1);
  answers_.BlockUntilEnded(2);
  ExpectRight(1);
  EXPECT_THAT(Threads(), ElementsAre(0, 0));
}

TEST_F(QuickRunTest, WhoIsAloneMayTakeLonger) {
  StartMeasured(absl::Microseconds(99));
  Enqueue(1, /*alone=*/true);
  ExpectRight(1);
  EXPECT_THAT(Threads(), ElementsAre(0, kHere));

  runner_.TakeTime(clock_, absl::Milliseconds(1));
  Enqueue(2, /*alone=*/true);  // tells that runs have become long
  Enqueue(3, /*alone=*/true);
  answers_.BlockUntilEnded(4);
  EXPECT_THAT(Threads(), ElementsAre(0, kHere, kHere, 0));
}

TEST_F(QuickRunTest, CodeOnSeveralThreadsIsTheDeviceThreads) {
  StartBatcher(1, 8);
  for (int number = 0; number < 2; ++number) {
    Enqueue(number);
    answers_.BlockUntilEnded(static_cast<size_t>(number) + 1);
    AwaitIdle();
  }
  EXPECT_THAT(Threads(), ElementsAre(0, 0));
}

TEST_F(QuickRunTest, WhoIsToWaitForCompanyWaits) {
  batching_.max_queue_delay = absl::Milliseconds(5);
  runner_.KeepToThread();
  StartBatcher(1, 8);
  batcher_->ResetCost(0, absl::Microseconds(1));
  Enqueue(0);
  EXPECT_EQ(answers_.Count(0), 0u);
  clock_.Advance(absl::Milliseconds(5));
  answers_.BlockUntilEnded(1);
  EXPECT_THAT(Threads(), ElementsAre(0));
}

TEST_F(QuickRunTest, NothingOvertakesWhatRunsOrWaits) {
  StartMeasured(absl::Microseconds(1));
  runner_.Hold();
  auto too_large = MakeTokenTask(Ids(9, {1}));  // fits no bucket
  too_large->on_done = answers_.Slot(1);
  ASSERT_TRUE(batcher_->Enqueue(too_large).ok());
  runner_.BlockUntilHeld(1);
  Enqueue(2);  // behind it
  EXPECT_EQ(batcher_->queue_length(), 1);
  runner_.Release();
  answers_.BlockUntilEnded(3);
  EXPECT_THAT(answers_.order(), ElementsAre(0, 1, 2));
  EXPECT_THAT(Threads(), ElementsAre(0, 0, 0));
}

TEST_F(QuickRunTest, NobodyPassesAnotherModelsTurn) {
  StartMeasured(absl::Microseconds(1));
  DeviceTurns::Client other(turns_, /*share=*/16, /*weight=*/1);
  DeviceTurns::Turn turn = DeviceTurns::Take(other);
  Enqueue(1);
  EXPECT_EQ(answers_.Count(1), 0u);
  turn.End();
  answers_.BlockUntilEnded(2);
  EXPECT_THAT(Threads(), ElementsAre(0, 0));
}

// The device thread woke up for a task that was gone when its turn came, and
// another one is run in its stead by then.
TEST_F(QuickRunTest, DeviceThreadThatWokeUpTooLateWaitsToo) {
  GatedClock gated;
  DeviceTurns turns(16, gated);
  devices_ = {{"cpu", &turns}};
  StartMeasured(absl::Microseconds(1));
  gated.HoldNext();
  CancelFlag(1) = true;
  ASSERT_TRUE(Submit(1, {{1}}).ok());
  gated.BlockUntilHeld();
  batcher_->SweepCancelled();

  runner_.HoldHere();
  Thread caller("caller", [this] { Enqueue(2); });
  runner_.BlockUntilHeld(1);
  Enqueue(3);
  gated.Open();
  // The device thread ends its turn: what is free then is all but the caller's.
  DeviceTurns::Client rest(turns, /*share=*/15, /*weight=*/1);
  DeviceTurns::Take(rest).End();
  EXPECT_EQ(batcher_->queue_length(), 1);

  runner_.Release();
  caller.Join();
  answers_.BlockUntilEnded(4);
  ExpectRight(2);
  ExpectRight(3);
  EXPECT_EQ(runner_.overlaps(), 0);
  EXPECT_THAT(Threads(), ElementsAre(0, kHere, 0));
  batcher_.reset();  // before the turns
}

// What the device thread would have run waits for it: tasks, and work.
TEST_F(QuickRunTest, DeviceThreadWaitsForARunElsewhere) {
  StartMeasured(absl::Microseconds(1));
  runner_.HoldHere();
  Thread caller("caller", [this] { Enqueue(1); });
  runner_.BlockUntilHeld(1);
  Enqueue(2);
  bool worked = false;
  Thread worker("worker", [&] {
    ASSERT_TRUE(batcher_->RunOnDeviceThread(0, [&] { worked = true; }).ok());
  });
  EXPECT_EQ(batcher_->queue_length(), 1);
  runner_.Release();
  caller.Join();
  worker.Join();
  answers_.BlockUntilEnded(3);
  EXPECT_TRUE(worked);
  EXPECT_EQ(runner_.overlaps(), 0);
  EXPECT_THAT(Threads(), ElementsAre(0, kHere, 0));
}

TEST_F(QuickRunTest, StopWaitsForIt) {
  StartMeasured(absl::Microseconds(1));
  runner_.HoldHere();
  Thread caller("caller", [this] { Enqueue(1); });
  runner_.BlockUntilHeld(1);
  Thread stopper("stopper",
                 [this] { batcher_->Stop(MonotonicTime::InfiniteFuture()); });
  clock_.BlockUntilWaiters(2);  // the timer and the drain
  EXPECT_EQ(Submit(2, {{2}}).code(), absl::StatusCode::kUnavailable);
  runner_.Release();
  stopper.Join();
  caller.Join();
  ExpectRight(1);
}

TEST_F(QuickRunTest, AFailedRunEndsItsTask) {
  StartMeasured(absl::Microseconds(1));
  ASSERT_TRUE(Submit(1, {{kFailingId}}).ok());
  EXPECT_EQ(answers_.Code(1), absl::StatusCode::kInternal);
  Enqueue(2);
  ExpectRight(2);
}

TEST_F(QuickRunTest, WhatIsOverIsNotRun) {
  StartMeasured(absl::Microseconds(1));
  CancelFlag(1).store(true);
  ASSERT_TRUE(Submit(1, {{1}}).ok());
  ASSERT_TRUE(Submit(2, {{2}}, /*deadline=*/clock_.Now()).ok());
  answers_.BlockUntilEnded(3);
  EXPECT_EQ(answers_.Code(1), absl::StatusCode::kCancelled);
  EXPECT_EQ(answers_.Code(2), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Threads(), ElementsAre(0));
}

TEST_F(QuickRunTest, OnDoneMayEnqueueAgain) {
  StartMeasured(absl::Microseconds(1));
  auto task = MakeTokenTask({{1}});
  task->on_done = [this](const absl::StatusOr<InferResult>& /*result*/) {
    Enqueue(2);
  };
  ASSERT_TRUE(batcher_->Enqueue(task).ok());
  answers_.BlockUntilEnded(2);
  ExpectRight(2);
}

}  // namespace
}  // namespace stoker
