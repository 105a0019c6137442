// Tasks that fail, and the neighbours who must not notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batching/batcher.h"
#include "tests/fakes/tensors.h"
#include "tests/unit/batching/batcher_fixture.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

class BatcherFailureTest : public BatcherFixture {
 protected:
  // Runs three tasks in one batch, the middle one with `id`; checks that the
  // other two get right answers. Returns what the middle one ended with.
  absl::Status MiddleOfThree(int64_t id) {
    StartBatcher(1, 8);
    OccupyOneThread();
    EXPECT_TRUE(Submit(1, {{1, 2}, {3, 4}}).ok());
    EXPECT_TRUE(Submit(2, {{5}, {id}}).ok());
    EXPECT_TRUE(Submit(3, {{6, 7, 8}}).ok());
    runner_.Release();
    answers_.BlockUntilEnded(4);
    EXPECT_EQ(runner_.runs()[1].shapes[0], Shape({8, 4}));
    ExpectRightAnswer(answers_.Get(1), {{1, 2}, {3, 4}});
    ExpectRightAnswer(answers_.Get(3), {{6, 7, 8}});
    return answers_.Get(2).status();
  }
};

TEST_F(BatcherFailureTest, AFaultyRowEndsItsTaskInTheSameRun) {
  EXPECT_EQ(MiddleOfThree(kFaultyRowId),
            absl::InvalidArgumentError("a bad row (row 1 of the request)"));
  EXPECT_EQ(runner_.runs().size(), 2u);
  EXPECT_EQ(Metric("stoker_row_faults_total"), 1);
}

TEST_F(BatcherFailureTest, AFaultWithoutARowIsFoundAlone) {
  EXPECT_EQ(MiddleOfThree(kFaultyNowhereId),
            absl::InvalidArgumentError("a bad id"));
  EXPECT_EQ(runner_.runs().size(), 5u);
  EXPECT_EQ(Metric("stoker_row_faults_total"), 1);
}

TEST_F(BatcherFailureTest, ARefusedBatchIsRunTaskByTask) {
  EXPECT_EQ(MiddleOfThree(kRefusedId),
            absl::InvalidArgumentError("a refused id"));
  EXPECT_EQ(runner_.runs().size(), 5u);
  EXPECT_EQ(Metric("stoker_row_faults_total"), 1);
}

TEST_F(BatcherFailureTest, AFailedBatchIsRunTaskByTask) {
  EXPECT_EQ(MiddleOfThree(kFailingId), absl::InternalError("a failing id"));
  EXPECT_EQ(runner_.runs().size(), 5u);
  EXPECT_EQ(Metric("stoker_row_faults_total"), 0);
  // Runs that gave no answer are in no statistics.
  EXPECT_EQ(runner_.reports().size(), 3u);
  EXPECT_EQ(Metric("stoker_execute_seconds"), 3);
  EXPECT_EQ(Metric("stoker_queue_seconds"), 4);
}

TEST_F(BatcherFailureTest, TheLastRowsFaultIsNotDoubledByPadding) {
  StartBatcher(1, 8);
  ASSERT_TRUE(Submit(1, {{1}, {kFaultyRowId}}).ok());  // padded to 8 rows
  answers_.BlockUntilEnded(1);
  EXPECT_EQ(answers_.Code(1), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Metric("stoker_row_faults_total"), 1);
}

TEST_F(BatcherFailureTest, ACancelledTaskIsNotTriedAgain) {
  StartBatcher(1, 8);
  OccupyOneThread();
  std::atomic<bool>& cancel = CancelFlag(2);
  ASSERT_TRUE(Submit(1, {{kFailingId}}).ok());
  ASSERT_TRUE(Submit(2, {{1}}).ok());
  runner_.ReleaseThread(0);
  answers_.BlockUntilEnded(1);
  runner_.BlockUntilHeld(1);  // both are in the batch
  cancel.store(true);
  runner_.Release();
  answers_.BlockUntilEnded(3);
  EXPECT_EQ(answers_.Code(1), absl::StatusCode::kInternal);
  EXPECT_EQ(answers_.Code(2), absl::StatusCode::kCancelled);
}

// A runner whose outputs are not what the layout says.
TEST_F(BatcherFailureTest, WrongOutputsAreAnInternalError) {
  struct Case {
    const char* name;
    std::function<void(RunResult&)> spoil;
  };
  const std::vector<Case> cases = {
      {"no outputs", [](RunResult& r) { r.outputs.clear(); }},
      {"one too many", [](RunResult& r) { r.outputs.push_back(r.outputs[0]); }},
      {"dtype", [](RunResult& r) { r.outputs[1].dtype = DataType::kInt32; }},
      {"shape", [](RunResult& r) { r.outputs[1].shape = {9}; }},
      {"bytes", [](RunResult& r) { r.outputs[1].byte_size -= 4; }},
  };
  for (const Case& c : cases) {
    FakeBatchRunner runner({{{1, 4}}}, {true, true},
                           [&](int bucket, absl::Span<const Tensor> inputs) {
                             BatchRunner::Outcome outcome =
                                 RunTokenModel(bucket, inputs);
                             c.spoil(*outcome.result);
                             return outcome;
                           });
    Answers answers;
    BatcherOptions options;
    options.name = "spoilt:1";
    options.labels = {{"model", "spoilt"}, {"version", "1"}};
    Batcher batcher(options, TokenLayout(8), runner, {{"cpu", &turns_}}, clock_,
                    metrics_);
    auto task = MakeTokenTask({{1, 2, 3}});
    task->on_done = answers.Slot(0);
    ASSERT_TRUE(batcher.Enqueue(task).ok());
    answers.BlockUntilEnded(1);
    EXPECT_EQ(answers.Code(0), absl::StatusCode::kInternal) << c.name;
    EXPECT_THAT(std::string(answers.Get(0).status().message()),
                HasSubstr("expected"))
        << c.name;
  }
}

}  // namespace
}  // namespace stoker
