#include "batching/batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/fakes/fake_batch_runner.h"
#include "tests/unit/batching/tensors.h"
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
  const Batch batch = rules.Begin(TaskOf(1, 5), absl::UnixEpoch());
  EXPECT_EQ(batch.bucket, 1);
  EXPECT_EQ(batch.rows, 1);
  EXPECT_EQ(*rules.RunSizes(batch), DimensionSizes({1, 16}));
}

TEST_F(BatchRulesTest, ATaskThatFitsNoBucketRunsAsItIs) {
  const BatchRules rules = Rules();
  const Batch batch = rules.Begin(TaskOf(9, 5), absl::UnixEpoch());
  EXPECT_EQ(batch.bucket, -1);
  EXPECT_EQ(*rules.RunSizes(batch), DimensionSizes({9, 5}));
}

TEST_F(BatchRulesTest, RowsAddUpAndOtherSizesAreTheLargest) {
  const BatchRules rules = Rules();
  Batch batch = rules.Begin(TaskOf(2, 3), absl::UnixEpoch());
  auto task = TaskOf(3, 5);
  EXPECT_TRUE(rules.TryAdd(batch, task));
  EXPECT_EQ(task, nullptr);
  EXPECT_EQ(batch.sizes, DimensionSizes({5, 5}));
  EXPECT_EQ(batch.bucket, 3);
  EXPECT_EQ(batch.rows, 5);
  EXPECT_EQ(batch.tasks.size(), 2u);
}

TEST_F(BatchRulesTest, ATaskThatDoesNotFitLeavesTheBatchAsItIs) {
  const BatchRules rules = Rules();
  struct Case {
    const char* name;
    int64_t rows, tokens, more_rows, more_tokens;
  };
  for (const Case& c :
       {Case{"too many rows", 4, 4, 5, 4}, Case{"too many tokens", 4, 4, 1, 17},
        Case{"first one without a bucket", 4, 17, 1, 4}}) {
    Batch batch = rules.Begin(TaskOf(c.rows, c.tokens), absl::UnixEpoch());
    const DimensionSizes sizes = batch.sizes;
    const int bucket = batch.bucket;
    auto task = TaskOf(c.more_rows, c.more_tokens);
    EXPECT_FALSE(rules.TryAdd(batch, task)) << c.name;
    EXPECT_NE(task, nullptr) << c.name;
    EXPECT_EQ(batch.sizes, sizes) << c.name;
    EXPECT_EQ(batch.bucket, bucket) << c.name;
    EXPECT_EQ(batch.tasks.size(), 1u) << c.name;
  }
}

TEST_F(BatchRulesTest, MaxBatchRowsBoundsTheSum) {
  layout_.max_batch_rows = 3;
  const BatchRules rules = Rules();
  Batch batch = rules.Begin(TaskOf(2, 4), absl::UnixEpoch());
  auto two_rows = TaskOf(2, 4);
  EXPECT_FALSE(rules.TryAdd(batch, two_rows));
  auto one_row = TaskOf(1, 4);
  EXPECT_TRUE(rules.TryAdd(batch, one_row));
}

TEST_F(BatchRulesTest, SizesThatMayNotBePaddedMustBeEqual) {
  layout_.paddable = {true, false};
  const FakeBatchRunner runner({{{8, 4}}, {{8, 5}}}, {true, false},
                               RunTokenModel);
  const BatchRules rules(layout_, runner);
  Batch batch = rules.Begin(TaskOf(1, 5), absl::UnixEpoch());
  auto shorter = TaskOf(1, 4);
  EXPECT_FALSE(rules.TryAdd(batch, shorter));
  auto equal = TaskOf(1, 5);
  EXPECT_TRUE(rules.TryAdd(batch, equal));
}

TEST_F(BatchRulesTest, NothingMergesWithoutABatchDimension) {
  layout_.batch_dimension = std::nullopt;
  const BatchRules rules = Rules();
  auto first = TaskOf(1, 4);
  auto second = TaskOf(1, 4);
  Batch batch = rules.Begin(std::move(first), absl::UnixEpoch());
  EXPECT_FALSE(rules.TryAdd(batch, second));
}

TEST_F(BatchRulesTest, NothingMergesWhenRowsAreUsedElsewhere) {
  layout_.outputs[1].dims.push_back(DimExpr::Dimension(0));
  const BatchRules rules = Rules();
  Batch batch = rules.Begin(TaskOf(1, 4), absl::UnixEpoch());
  auto task = TaskOf(1, 4);
  EXPECT_FALSE(rules.TryAdd(batch, task));
}

TEST_F(BatchRulesTest, AnUnknownOutputNeedsAnExactBucketAndNoCompany) {
  layout_.outputs[1].dims = {DimExpr::Unknown()};
  const BatchRules rules = Rules();
  EXPECT_EQ(rules.Begin(TaskOf(1, 3), absl::UnixEpoch()).bucket, -1);
  Batch batch = rules.Begin(TaskOf(1, 4), absl::UnixEpoch());
  EXPECT_EQ(batch.bucket, 0);
  auto task = TaskOf(1, 4);
  EXPECT_FALSE(rules.TryAdd(batch, task));
}

TEST_F(BatchRulesTest, ABucketThatIsTooSmallIsAnInternalError) {
  const BatchRules rules = Rules();
  Batch batch = rules.Begin(TaskOf(2, 4), absl::UnixEpoch());
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
