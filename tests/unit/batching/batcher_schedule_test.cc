// Seeded random schedules of submit, cancel, expire, fail, work and stop: every
// accepted task ends exactly once, with a code that its own history allows, and
// every good answer is right.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <vector>

#include "base/thread.h"
#include "batching/batcher.h"
#include "tests/unit/batching/batcher_fixture.h"

namespace stoker {
namespace {

constexpr int kClients = 3;
constexpr int kStepsPerClient = 25;

class Schedule : public BatcherFixture {
 protected:
  struct Request {
    Ids ids;
    MonotonicTime deadline = MonotonicTime::InfiniteFuture();
    absl::Duration timeout = absl::InfiniteDuration();
    std::shared_ptr<std::atomic<bool>> cancelled;
    bool accepted = false;
  };
  using Random = std::mt19937;

  static int Draw(Random& random, int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  }

  static Ids DrawIds(Random& random) {
    // 17 tokens and 9 rows fit no bucket.
    const int rows = Draw(random, 1, 10) == 1 ? 9 : Draw(random, 1, 3);
    const int tokens = Draw(random, 1, 10) == 1 ? 17 : Draw(random, 1, 6);
    Ids ids(static_cast<size_t>(rows));
    for (auto& row : ids) {
      for (int t = 0; t < tokens; ++t) row.push_back(Draw(random, 0, 99));
    }
    if (Draw(random, 1, 6) == 1) {
      ids.back()[0] = Draw(random, static_cast<int>(kRefusedId),
                           static_cast<int>(kFaultyRowId));
    }
    return ids;
  }

  void SubmitDrawn(int number, Random& random, Request& request) {
    request.ids = DrawIds(random);
    request.cancelled = std::make_shared<std::atomic<bool>>(false);
    if (Draw(random, 1, 3) == 1) {
      request.deadline =
          clock_.Now() + absl::Milliseconds(Draw(random, -1, 20));
    }
    auto task = MakeTokenTask(request.ids);
    task->deadline = request.deadline;
    if (Draw(random, 1, 3) == 1) {
      request.timeout = absl::Milliseconds(Draw(random, 1, 20));
      task->timeout = request.timeout;
    }
    task->priority = static_cast<uint64_t>(Draw(random, 0, 4));
    task->cancelled = request.cancelled;
    task->on_done = answers_.Slot(number);
    const absl::Status status = batcher_->Enqueue(task);
    request.accepted = status.ok();
    EXPECT_EQ(task == nullptr, status.ok());
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
  }

  // One client's steps on its own requests, the numbers from `first` on.
  void Act(int first, unsigned seed, std::vector<Request>& requests) {
    Random random(seed);
    for (int step = 0; step < kStepsPerClient; ++step) {
      SubmitDrawn(first + step, random, requests[static_cast<size_t>(step)]);
      const int victim = Draw(random, 0, step);
      switch (Draw(random, 1, 8)) {
        case 1:
          requests[static_cast<size_t>(victim)].cancelled->store(true);
          break;
        case 2:
          requests[static_cast<size_t>(victim)].cancelled->store(true);
          batcher_->SweepCancelled();
          break;
        case 3:
          clock_.Advance(absl::Milliseconds(Draw(random, 0, 10)));
          break;
        case 4:
          runner_.Hold();
          break;
        default:
          runner_.Release();
      }
    }
  }

  void CheckEnd(int number, const Request& request, bool drained) {
    SCOPED_TRACE(number);
    ASSERT_EQ(answers_.Count(number), request.accepted ? 1u : 0u);
    if (!request.accepted) return;
    const auto answer = answers_.Get(number);
    switch (answer.status().code()) {
      case absl::StatusCode::kOk:
        EXPECT_GE(request.ids.back()[0], 0);
        ExpectRightAnswer(answer, request.ids);
        break;
      case absl::StatusCode::kCancelled:
        EXPECT_TRUE(request.cancelled->load());
        break;
      case absl::StatusCode::kUnavailable:
        EXPECT_TRUE(!drained || request.deadline <= clock_.Now() ||
                    request.timeout != absl::InfiniteDuration());
        break;
      case absl::StatusCode::kInternal:
        EXPECT_EQ(request.ids.back()[0], kFailingId);
        break;
      case absl::StatusCode::kInvalidArgument:
        EXPECT_LT(request.ids.back()[0], 0);
        EXPECT_NE(request.ids.back()[0], kFailingId);
        break;
      default:
        ADD_FAILURE() << answer.status();
    }
  }

  void Play(unsigned seed) {
    Random random(seed);
    batching_.policies.assign(static_cast<size_t>(Draw(random, 1, 3)), {});
    for (QueuePolicy& policy : batching_.policies) {
      policy.max_queue_size = Draw(random, 2, 40);
      if (Draw(random, 1, 3) == 1) {
        policy.timeout_action = TimeoutAction::kDelay;
      }
    }
    batching_.preserve_ordering = Draw(random, 1, 4) == 1;
    if (Draw(random, 1, 3) == 1) {
      batching_.max_queue_delay = absl::Milliseconds(Draw(random, 1, 8));
    }
    if (Draw(random, 1, 2) == 1) runner_.KeepToThread();
    StartBatcher(/*threads=*/Draw(random, 1, 3),
                 /*max_batch_rows=*/Draw(random, 1, 8));
    std::vector<std::vector<Request>> requests(
        kClients, std::vector<Request>(kStepsPerClient));
    {
      std::vector<Thread> clients;
      for (int c = 0; c < kClients; ++c) {
        auto& own = requests[static_cast<size_t>(c)];
        const unsigned own_seed = random();
        clients.emplace_back("client", [this, c, own_seed, &own] {
          Act(c * kStepsPerClient, own_seed, own);
        });
      }
      Thread worker("worker", [this] {
        const absl::Status status = batcher_->RunOnDeviceThread(0, [] {});
        EXPECT_TRUE(status.ok() || absl::IsFailedPrecondition(status));
      });
      const bool early_stop = Draw(random, 1, 3) == 1;
      if (!early_stop) clients.clear();  // joins them
      runner_.Release();
      const bool drains = Draw(random, 1, 2) == 1;
      Thread stopper("stopper", [this, drains] {
        batcher_->Stop(drains ? MonotonicTime::InfiniteFuture() : clock_.Now());
      });
      clients.clear();
      runner_.Release();
      stopper.Join();
      for (int n = 0; n < kClients * kStepsPerClient; ++n) {
        CheckEnd(n,
                 requests[static_cast<size_t>(n / kStepsPerClient)]
                         [static_cast<size_t>(n % kStepsPerClient)],
                 drains);
      }
    }
    EXPECT_EQ(runner_.overlaps(), 0);
    EXPECT_EQ(batcher_->queue_length(), 0);
    EXPECT_EQ(Metric("stoker_queue_length"), 0);
  }
};

class ScheduleTest : public Schedule,
                     public ::testing::WithParamInterface<unsigned> {};

TEST_P(ScheduleTest, EveryAcceptedTaskEndsOnceAndRight) { Play(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Seeds, ScheduleTest, ::testing::Range(0u, 200u));

}  // namespace
}  // namespace stoker
