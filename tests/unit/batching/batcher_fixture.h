// A batcher over the token model with a clock and a gate that the test moves.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "batching/batcher.h"
#include "metrics/metrics.h"
#include "tests/fakes/fake_batch_runner.h"
#include "tests/fakes/fake_clock.h"
#include "tests/unit/batching/token_model.h"

namespace stoker {

// What tasks ended with, by the number that the test gave each. Thread-safe.
class Answers {
 public:
  using Answer = absl::StatusOr<InferResult>;

  std::function<void(Answer)> Slot(int number) {
    return [this, number](Answer answer) {
      absl::MutexLock lock(&mu_);
      order_.push_back(number);
      by_number_.emplace(number, std::move(answer));
    };
  }

  void BlockUntilEnded(size_t count) {
    absl::MutexLock lock(&mu_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return order_.size() >= count;
    };
    mu_.Await(absl::Condition(&enough));
  }

  // How often on_done was called for it.
  size_t Count(int number) const {
    absl::MutexLock lock(&mu_);
    return by_number_.count(number);
  }
  // The first answer; NOT_FOUND when there is none yet.
  Answer Get(int number) const {
    absl::MutexLock lock(&mu_);
    const auto it = by_number_.find(number);
    return it == by_number_.end() ? absl::NotFoundError("not ended")
                                  : it->second;
  }
  absl::StatusCode Code(int number) const {
    return Get(number).status().code();
  }
  // Numbers in the order in which their tasks ended.
  std::vector<int> order() const {
    absl::MutexLock lock(&mu_);
    return order_;
  }

 private:
  mutable absl::Mutex mu_;
  std::vector<int> order_ ABSL_GUARDED_BY(mu_);
  std::multimap<int, Answer> by_number_ ABSL_GUARDED_BY(mu_);
};

class BatcherFixture : public ::testing::Test {
 protected:
  using Ids = std::vector<std::vector<int64_t>>;

  // Makes batcher_; the fixture's other members may be changed before.
  void StartBatcher(int threads, int64_t max_batch_rows) {
    BatcherOptions options;
    options.name = "tokens:1";
    options.threads = threads;
    options.batching = batching_;
    options.labels = {{"model", "tokens"}, {"version", "1"}};
    batcher_.emplace(std::move(options), TokenLayout(max_batch_rows), runner_,
                     devices_, clock_, metrics_);
  }

  // Enqueues a task of these ids whose answer gets the number.
  absl::Status Submit(
      int number, const Ids& ids,
      MonotonicTime deadline = MonotonicTime::InfiniteFuture()) {
    auto task = MakeTokenTask(ids);
    task->deadline = deadline;
    task->cancelled = cancelled_[number];
    task->on_done = answers_.Slot(number);
    return batcher_->Enqueue(task);
  }

  // The flag of the task that is submitted under this number afterwards.
  std::atomic<bool>& CancelFlag(int number) {
    cancelled_[number] = std::make_shared<std::atomic<bool>>(false);
    return *cancelled_[number];
  }

  // Submits number 0 and waits until its run is held at the gate.
  void OccupyOneThread() {
    runner_.Hold();
    ASSERT_TRUE(Submit(0, {{1}}).ok());
    runner_.BlockUntilHeld(1);
  }

  double Metric(std::string_view name) const {
    return MetricValue(metrics_, name, {{"model", "tokens"}});
  }

  FakeClock clock_;
  DeviceTurns turns_{16, clock_};
  std::vector<RunDemand> devices_ = {{"cpu", &turns_}};
  MetricRegistry metrics_;
  Answers answers_;
  DynamicBatching batching_;
  FakeBatchRunner runner_{
      {{{1, 4}}, {{8, 4}}, {{8, 16}}}, {true, true}, RunTokenModel};
  std::map<int, std::shared_ptr<std::atomic<bool>>> cancelled_;
  std::optional<Batcher> batcher_;
};

}  // namespace stoker
