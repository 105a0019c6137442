// Batches of tasks of any length, put together end to end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

#include "batching/batcher.h"
#include "tests/fakes/fake_batch_runner.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::Pair;

constexpr int64_t kMostTasks = 3;

// Dimension 0 counts elements, 1 tasks. Inputs: values, and where each task's
// begin and end; outputs: sums of the tasks, and the values less one.
BatchLayout RaggedLayout() {
  const DimExpr elements = DimExpr::Dimension(0);
  const DimExpr tasks = DimExpr::Dimension(1);
  const DimExpr marks =
      DimExpr::Binary(DimExpr::Kind::kAdd, tasks, DimExpr::Constant(1));
  BatchLayout layout;
  layout.inputs = {
      {DataType::kFp32, {elements}},
      {DataType::kInt64,
       {marks},
       0,
       BatchInput{BatchInput::Kind::kAccumulatedElementCountWithZero, 0}}};
  layout.outputs = {{DataType::kFp32, {tasks}}, {DataType::kFp32, {elements}}};
  layout.batch_dimension = 0;
  layout.max_batch_rows = 12;
  layout.max_batch_tasks = kMostTasks;
  layout.paddable = {true, true};
  return layout;
}

BatchRunner::Outcome RaggedModel(int, absl::Span<const Tensor> inputs) {
  const std::vector<float> values = ValuesOf<float>(inputs[0]);
  const std::vector<int64_t> marks = ValuesOf<int64_t>(inputs[1]);
  std::vector<float> sums, less;
  for (size_t i = 1; i < marks.size(); ++i) {
    float sum = 0;
    for (int64_t at = marks[i - 1]; at < marks[i]; ++at) {
      sum += values[static_cast<size_t>(at)];
    }
    sums.push_back(sum);
  }
  for (const float value : values) less.push_back(value - 1);
  const auto tasks = static_cast<int64_t>(sums.size());
  const auto elements = static_cast<int64_t>(less.size());
  RunResult result;
  result.outputs = {MakeTensor<float>(DataType::kFp32, {tasks}, sums),
                    MakeTensor<float>(DataType::kFp32, {elements}, less)};
  return {.result = std::move(result)};
}

class RaggedTest : public ::testing::Test {
 protected:
  void Submit(const std::vector<float>& values) {
    auto task = std::make_unique<InferTask>();
    const auto count = static_cast<int64_t>(values.size());
    task->inputs = {MakeTensor<float>(DataType::kFp32, {count}, values),
                    MakeTensor<int64_t>(DataType::kInt64, {2}, {0, 0})};
    task->sizes = {count, 1};
    task->rows = count;
    const size_t number = answers_.size();
    answers_.emplace_back();
    task->on_done = [this, number](absl::StatusOr<InferResult> result) {
      absl::MutexLock lock(&mu_);
      answers_[number] = std::move(result);
      ++ended_;
    };
    ASSERT_TRUE(batcher_.Enqueue(task).ok());
  }
  void BlockUntilEnded(int count) {
    absl::MutexLock lock(&mu_);
    const auto ended = [&] { return ended_ >= count; };
    mu_.Await(absl::Condition(&ended));
  }
  // The sum, and the values less one.
  std::pair<std::vector<float>, std::vector<float>> Answer(size_t number) {
    const std::vector<Tensor>& outputs = (*answers_[number])->outputs;
    return {ValuesOf<float>(outputs[0]), ValuesOf<float>(outputs[1])};
  }

  FakeClock clock_;
  MetricRegistry metrics_;
  DeviceTurns turns_{16, clock_};
  absl::Mutex mu_;
  int ended_ = 0;
  std::deque<std::optional<absl::StatusOr<InferResult>>> answers_;
  FakeBatchRunner runner_{
      {{{4, kMostTasks}}, {{12, kMostTasks}}}, {true, true}, RaggedModel};
  Batcher batcher_{
      {.name = "ragged:1", .labels = {{"model", "ragged"}, {"version", "1"}}},
      RaggedLayout(),
      runner_,
      {{"cpu", &turns_}},
      clock_,
      metrics_};
};

TEST_F(RaggedTest, TasksOfAnyLengthShareABatch) {
  runner_.Hold();
  Submit({1});
  runner_.BlockUntilHeld(1);
  Submit({1, 2, 3});
  Submit({10});
  Submit({20, 30});
  Submit({40});  // one more than a batch takes
  runner_.Release();
  BlockUntilEnded(5);
  EXPECT_THAT(Answer(0), Pair(ElementsAre(1), ElementsAre(0)));
  EXPECT_THAT(Answer(1), Pair(ElementsAre(6), ElementsAre(0, 1, 2)));
  EXPECT_THAT(Answer(2), Pair(ElementsAre(10), ElementsAre(9)));
  EXPECT_THAT(Answer(3), Pair(ElementsAre(50), ElementsAre(19, 29)));
  EXPECT_THAT(Answer(4), Pair(ElementsAre(40), ElementsAre(39)));
  const auto runs = runner_.runs();
  ASSERT_EQ(runs.size(), 3u);
  EXPECT_THAT(runs[1].shapes, ElementsAre(Shape{12}, Shape{4}));
}

TEST_F(RaggedTest, WhatFitsNoBucketRunsAsItIs) {
  Submit(std::vector<float>(13, 1));
  BlockUntilEnded(1);
  EXPECT_THAT(Answer(0).first, ElementsAre(13));
  EXPECT_THAT(runner_.runs()[0].shapes, ElementsAre(Shape{13}, Shape{2}));
}

}  // namespace
}  // namespace stoker
