// A request's way through its steps: in which order they run, what they are
// given, and what becomes of it when one fails.
#include "pipelines/pipeline_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/thread.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/tensors.h"
#include "tests/unit/pipelines/declared_models.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using enum DataType;

// Adds one to each element, when it is told to or, at once, if `quick`.
class AddsOne : public StepModel {
 public:
  explicit AddsOne(ModelSpec spec, bool quick = false)
      : spec_(std::move(spec)), quick_(quick) {}

  const ModelSpec& spec() const override { return spec_; }
  absl::Status Submit(std::unique_ptr<InferTask>& task) override {
    if (!refuse_.ok()) return refuse_;
    if (quick_) {
      End(std::move(task));
      return absl::OkStatus();
    }
    const absl::MutexLock lock(&mu_);
    waiting_.push_back(std::move(task));
    return absl::OkStatus();
  }
  void SweepCancelled() override {
    std::vector<std::unique_ptr<InferTask>> over;
    {
      const absl::MutexLock lock(&mu_);
      for (auto& task : waiting_) {
        if (task->cancelled->load()) over.push_back(std::move(task));
      }
      std::erase(waiting_, nullptr);
    }
    for (auto& task : over) task->on_done(absl::CancelledError("cancelled"));
  }
  void RecordSuccess(const InferResult&, int64_t, absl::Duration) override {
    ++successes;
  }
  void RecordFailure(const absl::Status&, bool, absl::Duration) override {
    ++failures;
  }

  // The first that waits.
  std::unique_ptr<InferTask> Take() {
    const absl::MutexLock lock(&mu_);
    const auto waits = [this] {
      mu_.AssertHeld();
      return !waiting_.empty();
    };
    mu_.Await(absl::Condition(&waits));
    std::unique_ptr<InferTask> task = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    return task;
  }
  bool idle() const {
    const absl::MutexLock lock(&mu_);
    return waiting_.empty();
  }
  void Refuse(absl::Status status) { refuse_ = std::move(status); }
  static void End(std::unique_ptr<InferTask> task) {
    std::vector<float> values = ValuesOf<float>(task->inputs[0]);
    for (float& value : values) ++value;
    InferResult result;
    result.outputs = {MakeTensor<float>(kFp32, task->inputs[0].shape, values)};
    result.tier = "eager";
    task->on_done(std::move(result));
  }

  int successes = 0;
  int failures = 0;

 private:
  const ModelSpec spec_;
  const bool quick_;
  absl::Status refuse_;
  mutable absl::Mutex mu_;
  std::vector<std::unique_ptr<InferTask>> waiting_ ABSL_GUARDED_BY(mu_);
};

// Counts, and refuses what is more than `most`.
class Ledger : public TaskMemory {
 public:
  absl::Status Take(size_t bytes) override {
    const absl::MutexLock lock(&mu_);
    if (held_ + bytes > most) return absl::ResourceExhaustedError("full");
    held_ += bytes;
    peak = std::max(peak, held_);
    return absl::OkStatus();
  }
  void Give(size_t bytes) override {
    const absl::MutexLock lock(&mu_);
    ASSERT_LE(bytes, held_);
    held_ -= bytes;
  }
  size_t held() const {
    const absl::MutexLock lock(&mu_);
    return held_;
  }
  size_t most = 1 << 20;
  size_t peak = 0;

 private:
  mutable absl::Mutex mu_;
  size_t held_ ABSL_GUARDED_BY(mu_) = 0;
};

class PipelineRunTest : public ::testing::Test {
 protected:
  static std::shared_ptr<AddsOne> Model(bool quick = false) {
    return std::make_shared<AddsOne>(RowsModel("m", kFp32, kFp32), quick);
  }
  // x of two elements, {0, 10}.
  void Start(const std::shared_ptr<ModelSpec>& chain,
             std::vector<std::shared_ptr<StepModel>> models) {
    chain->inputs.resize(chain->pipeline->inputs.size());
    auto task = std::make_unique<InferTask>();
    task->inputs = {MakeTensor<float>(kFp32, {1, 2}, {0, 10})};
    task->priority = 2;
    task->timeout = absl::Seconds(3);
    task->cancelled = cancelled_;
    task->memory = &ledger_;
    task->on_done = [this](absl::StatusOr<InferResult> result) {
      const absl::MutexLock lock(&mu_);
      EXPECT_FALSE(answer_.has_value());
      answer_ = std::move(result);
    };
    PipelineRun::Start(chain, std::make_shared<PipelineGraph>(*chain->pipeline),
                       std::move(models), std::move(task), clock_,
                       [this](size_t step, const absl::Status& status,
                              absl::Duration /*total*/) {
                         const absl::MutexLock lock(&mu_);
                         told_.push_back(std::to_string(step) +
                                         (status.ok() ? " ok" : " failed"));
                       });
  }
  bool answered() {
    const absl::MutexLock lock(&mu_);
    return answer_.has_value();
  }
  absl::StatusOr<InferResult> Answer() {
    const absl::MutexLock lock(&mu_);
    const auto there = [this] {
      mu_.AssertHeld();
      return answer_.has_value();
    };
    mu_.Await(absl::Condition(&there));
    return *answer_;
  }

  FakeClock clock_;
  Ledger ledger_;
  std::shared_ptr<std::atomic<bool>> cancelled_ =
      std::make_shared<std::atomic<bool>>(false);
  absl::Mutex mu_;
  std::optional<absl::StatusOr<InferResult>> answer_ ABSL_GUARDED_BY(mu_);
  std::vector<std::string> told_ ABSL_GUARDED_BY(mu_);
};

TEST_F(PipelineRunTest, EachStepGetsWhatTheOneBeforeMade) {
  const auto first = Model();
  const auto second = Model();
  Start(ChainOf("p", {"a", "b"}), {first, second});
  EXPECT_TRUE(second->idle());
  auto task = first->Take();
  EXPECT_EQ(task->priority, 2u);
  EXPECT_EQ(task->timeout, absl::Seconds(3));
  EXPECT_EQ(task->cancelled, cancelled_);
  EXPECT_EQ(task->rows, 1);
  AddsOne::End(std::move(task));
  EXPECT_FALSE(answered());
  task = second->Take();
  // On another's thread, which has other things to do.
  EXPECT_FALSE(task->may_run_here);
  EXPECT_THAT(ValuesOf<float>(task->inputs[0]), ElementsAre(1, 11));
  AddsOne::End(std::move(task));
  const auto answer = Answer();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(ValuesOf<float>(answer->outputs[0]), ElementsAre(2, 12));
  EXPECT_EQ(answer->tier, kPipelineTier);
  ASSERT_EQ(answer->steps.size(), 2u);
  EXPECT_EQ(answer->steps[0].name, "step0");
  EXPECT_EQ(first->successes, 1);
  EXPECT_EQ(ledger_.held(), 0u);
  EXPECT_EQ(ledger_.peak, 16u);
}

TEST_F(PipelineRunTest, QuickStepsEndBeforeStartReturns) {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<StepModel>> models;
  for (int i = 0; i < 60; ++i) {
    names.push_back("m");
    models.push_back(Model(/*quick=*/true));
  }
  Start(ChainOf("p", names), models);
  ASSERT_TRUE(answered());
  EXPECT_THAT(ValuesOf<float>(Answer()->outputs[0]), ElementsAre(60, 70));
}

// x goes to two steps, a third takes what both make.
std::shared_ptr<ModelSpec> Diamond() {
  const auto chain = ChainOf("p", {"a", "b", "c"});
  auto pipeline = std::make_shared<PipelineSpec>(*chain->pipeline);
  pipeline->steps[1].inputs = {{"in", "x"}};
  pipeline->steps[2].inputs = {{"in", "t1"}};
  pipeline->outputs.push_back({"t0", std::nullopt, std::nullopt});
  pipeline->outputs.push_back({"t1", std::nullopt, std::nullopt});
  chain->pipeline = pipeline;
  return chain;
}

TEST_F(PipelineRunTest, StepsThatDoNotWaitForEachOtherRunBesideEachOther) {
  const auto left = Model();
  const auto right = Model();
  const auto last = Model();
  Start(Diamond(), {left, right, last});
  auto one = left->Take();
  auto other = right->Take();
  std::vector<Thread> threads;
  threads.emplace_back("one", [&] { AddsOne::End(std::move(one)); });
  threads.emplace_back("other", [&] { AddsOne::End(std::move(other)); });
  threads.emplace_back("last", [&] { AddsOne::End(last->Take()); });
  const auto answer = Answer();
  threads.clear();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(ValuesOf<float>(answer->outputs[0]), ElementsAre(2, 12));
  EXPECT_THAT(ValuesOf<float>(answer->outputs[1]), ElementsAre(1, 11));
  EXPECT_EQ(ledger_.held(), 0u);
}

TEST_F(PipelineRunTest, TheFirstFailureEndsItAndNamesItsStep) {
  const auto left = Model();
  const auto right = Model();
  const auto last = Model();
  Start(Diamond(), {left, right, last});
  left->Take()->on_done(absl::InvalidArgumentError("index out of range"));
  // What waits elsewhere is cancelled.
  EXPECT_TRUE(right->idle());
  const auto answer = Answer();
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(answer.status().message(), "step 'step0': index out of range");
  EXPECT_EQ(left->failures, 1);
  EXPECT_EQ(ledger_.held(), 0u);
  const absl::MutexLock lock(&mu_);
  EXPECT_THAT(told_, ElementsAre("0 failed", "1 failed"));
}

TEST_F(PipelineRunTest, ARefusedStepKeepsItsCodeAndWhatTheQueueSays) {
  const auto first = Model(/*quick=*/true);
  const auto second = Model();
  absl::Status full = absl::UnavailableError("Exceeds maximum queue size");
  full.SetPayload("mark", absl::Cord("1"));
  second->Refuse(full);
  Start(ChainOf("p", {"a", "b"}), {first, second});
  ASSERT_TRUE(answered());
  const absl::Status status = Answer().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("step 'step1': Exceeds"));
  EXPECT_TRUE(status.GetPayload("mark").has_value());
}

TEST_F(PipelineRunTest, WhatDoesNotFitTheNextModelIsToldOfThatStep) {
  const auto first = Model(/*quick=*/true);
  const auto second =
      std::make_shared<AddsOne>(RowsModel("b", kFp32, kFp32, 3, 3));
  Start(ChainOf("p", {"a", "b"}), {first, second});
  ASSERT_TRUE(answered());
  EXPECT_THAT(Answer().status().message(),
              HasSubstr("step 'step1': unexpected shape for input 'in' for "
                        "model 'b'"));
}

TEST_F(PipelineRunTest, TensorsBetweenStepsAreCountedAndMayBeRefused) {
  ledger_.most = 15;  // two of 8 bytes are there at a time
  const auto first = Model(/*quick=*/true);
  const auto second = Model(/*quick=*/true);
  Start(ChainOf("p", {"a", "b"}), {first, second});
  ASSERT_TRUE(answered());
  EXPECT_EQ(Answer().status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ledger_.held(), 0u);
}

TEST_F(PipelineRunTest, ACancelledRequestEndsAtTheStepThatItWaitsIn) {
  const auto first = Model(/*quick=*/true);
  const auto second = Model();
  Start(ChainOf("p", {"a", "b"}), {first, second});
  cancelled_->store(true);
  second->SweepCancelled();
  ASSERT_TRUE(answered());
  EXPECT_EQ(Answer().status().code(), absl::StatusCode::kCancelled);
}

// Ends of many steps meet on many threads.
TEST_F(PipelineRunTest, ManyStepsAtOnce) {
  constexpr int kSteps = 16;
  const auto chain = ChainOf("p", std::vector<std::string>(kSteps, "m"));
  auto pipeline = std::make_shared<PipelineSpec>(*chain->pipeline);
  pipeline->outputs.clear();
  for (PipelineStep& step : pipeline->steps) {
    step.inputs = {{"in", "x"}};
    pipeline->outputs.push_back(
        {step.outputs[0].tensor, std::nullopt, std::nullopt});
  }
  chain->pipeline = pipeline;
  const auto model = Model();
  Start(chain, std::vector<std::shared_ptr<StepModel>>(kSteps, model));
  {
    std::vector<Thread> threads;
    for (int i = 0; i < kSteps; ++i) {
      threads.emplace_back("end", [&] { AddsOne::End(model->Take()); });
    }
  }
  const auto answer = Answer();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->outputs.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(model->successes, kSteps);
  EXPECT_EQ(ledger_.held(), 0u);
}

}  // namespace
}  // namespace stoker
