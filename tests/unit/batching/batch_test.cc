#include "batching/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/fakes/fake_batch_runner.h"
#include "tests/fakes/tensors.h"
#include "tests/unit/batching/token_model.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<InferTask> TaskOf(int64_t rows, int64_t tokens) {
  return MakeTokenTask(std::vector<std::vector<int64_t>>(
      static_cast<size_t>(rows),
      std::vector<int64_t>(static_cast<size_t>(tokens), 1)));
}

class BatchRulesTest : public ::testing::Test {
 protected:
  // Buckets of 1 and 8 rows of 4 and 16 tokens.
  BatchRules Rules() { return BatchRules(layout_, runner_); }

  BatchLayout layout_ = TokenLayout(8);
  FakeBatchRunner runner_{
      {{{1, 4}}, {{1, 16}}, {{8, 4}}, {{8, 16}}}, {true, true}, RunTokenModel};
};

TEST_F(BatchRulesTest, ATaskAloneGetsItsBucket) {
  const BatchRules rules = Rules();
  const Batch batch = rules.Begin(TaskOf(1, 5), MonotonicTime());
  EXPECT_EQ(batch.bucket, 1);
  EXPECT_EQ(batch.rows, 1);
  EXPECT_EQ(*rules.RunSizes(batch), DimensionSizes({1, 16}));
}

TEST_F(BatchRulesTest, ATaskThatFitsNoBucketRunsAsItIs) {
  const BatchRules rules = Rules();
  const Batch batch = rules.Begin(TaskOf(9, 5), MonotonicTime());
  EXPECT_EQ(batch.bucket, -1);
  EXPECT_EQ(*rules.RunSizes(batch), DimensionSizes({9, 5}));
}

TEST_F(BatchRulesTest, RowsAddUpAndOtherSizesAreTheLargest) {
  const BatchRules rules = Rules();
  std::vector<std::unique_ptr<InferTask>> tasks;
  tasks.push_back(TaskOf(2, 3));
  tasks.push_back(TaskOf(3, 5));
  const Batch batch = rules.Assemble(std::move(tasks), 3, MonotonicTime());
  EXPECT_EQ(batch.sizes, DimensionSizes({5, 5}));
  EXPECT_EQ(batch.bucket, 3);
  EXPECT_EQ(batch.rows, 5);
  EXPECT_EQ(batch.tasks.size(), 2u);
}

TEST_F(BatchRulesTest, LanesAreByWhatTasksArePaddedTo) {
  const BatchRules rules = Rules();
  EXPECT_EQ(rules.LaneOf(*TaskOf(1, 3)), rules.LaneOf(*TaskOf(8, 4)));
  EXPECT_NE(rules.LaneOf(*TaskOf(1, 4)), rules.LaneOf(*TaskOf(1, 5)));
  EXPECT_EQ(rules.LaneOf(*TaskOf(1, 17)), -1);
  EXPECT_EQ(rules.LaneOf(*TaskOf(9, 4)), -1);
}

TEST_F(BatchRulesTest, NothingSharesWithoutABatchDimension) {
  layout_.batch_dimension = std::nullopt;
  EXPECT_EQ(Rules().LaneOf(*TaskOf(1, 4)), -1);
}

TEST_F(BatchRulesTest, NothingSharesWhenRowsAreUsedElsewhere) {
  layout_.outputs[1].dims.push_back(DimExpr::Dimension(0));
  EXPECT_EQ(Rules().LaneOf(*TaskOf(1, 4)), -1);
}

TEST_F(BatchRulesTest, AnUnknownOutputNeedsAnExactBucketAndNoCompany) {
  layout_.outputs[1].dims = {DimExpr::Unknown()};
  const BatchRules rules = Rules();
  EXPECT_EQ(rules.Begin(TaskOf(1, 3), MonotonicTime()).bucket, -1);
  Batch batch = rules.Begin(TaskOf(1, 4), MonotonicTime());
  EXPECT_EQ(batch.bucket, 0);
  EXPECT_EQ(rules.LaneOf(*TaskOf(1, 4)), -1);
}

TEST_F(BatchRulesTest, ABucketThatIsTooSmallIsAnInternalError) {
  const BatchRules rules = Rules();
  Batch batch = rules.Begin(TaskOf(2, 4), MonotonicTime());
  batch.bucket = 0;
  EXPECT_EQ(rules.RunSizes(batch).status().code(), absl::StatusCode::kInternal);
}

TEST_F(BatchRulesTest, ChecksTasksAgainstTheLayout) {
  const BatchRules rules = Rules();
  EXPECT_TRUE(rules.CheckTask(*TaskOf(2, 3)).ok());

  auto sizes = TaskOf(2, 3);
  sizes->sizes.push_back(1);
  auto rows = TaskOf(2, 3);
  rows->rows = 1;
  auto count = TaskOf(2, 3);
  count->inputs.pop_back();
  auto dtype = TaskOf(2, 3);
  dtype->inputs[0].dtype = DataType::kUint64;
  auto shape = TaskOf(2, 3);
  shape->inputs[0].shape = {3, 2};
  auto bytes = TaskOf(2, 3);
  bytes->inputs[0].byte_size -= 1;
  auto negative = TaskOf(2, 3);
  negative->sizes = {2, -3};
  negative->inputs[0].shape = {2, -3};
  for (const auto& [task, text] :
       {std::pair{&sizes, "2 dimensions"}, std::pair{&rows, "rows"},
        std::pair{&count, "inputs"}, std::pair{&dtype, "UINT64"},
        std::pair{&shape, "[3,2]"}, std::pair{&bytes, "47 bytes"},
        std::pair{&negative, "[2,-3]"}}) {
    const absl::Status status = rules.CheckTask(**task);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }
}

}  // namespace
}  // namespace stoker
