#include "tests/unit/batching/token_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

std::vector<int32_t> Shifted(const std::vector<int64_t>& ids, int64_t rows,
                             int64_t tokens) {
  std::vector<int32_t> shifted;
  for (int64_t b = 0; b < rows; ++b) {
    for (int k = 0; k < 2; ++k) {
      for (int64_t t = 0; t < tokens; ++t) {
        for (int j = 0; j < 3; ++j) {
          const int64_t id = ids[static_cast<size_t>(b * tokens + t)];
          shifted.push_back(static_cast<int32_t>(10 * id + 3 * k + j));
        }
      }
    }
  }
  return shifted;
}

std::vector<float> Sums(const std::vector<int64_t>& ids,
                        const std::vector<float>& bias, int64_t tokens) {
  std::vector<float> sums = bias;
  for (size_t i = 0; i < ids.size(); ++i) {
    sums[i / static_cast<size_t>(tokens)] += static_cast<float>(ids[i]);
  }
  return sums;
}

std::vector<float> Bias(size_t rows) {
  std::vector<float> bias;
  for (size_t b = 0; b < rows; ++b) {
    bias.push_back(static_cast<float>(b) + 0.5f);
  }
  return bias;
}

std::vector<int64_t> Flat(const std::vector<std::vector<int64_t>>& ids) {
  std::vector<int64_t> flat;
  for (const auto& row : ids) flat.insert(flat.end(), row.begin(), row.end());
  return flat;
}

}  // namespace

BatchLayout TokenLayout(int64_t max_batch_rows) {
  const DimExpr batch = DimExpr::Dimension(0);
  const DimExpr tokens = DimExpr::Dimension(1);
  BatchLayout layout;
  layout.inputs = {{DataType::kInt64, {batch, tokens}, 0},
                   {DataType::kFp32, {batch}, 0}};
  layout.outputs = {
      {DataType::kInt32,
       {batch, DimExpr::Constant(2), tokens, DimExpr::Constant(3)}},
      {DataType::kFp32, {batch}}};
  layout.batch_dimension = 0;
  layout.max_batch_rows = max_batch_rows;
  layout.paddable = {true, true};
  return layout;
}

BatchRunner::Outcome RunTokenModel(int bucket,
                                   absl::Span<const Tensor> inputs) {
  BatchRunner::Outcome outcome;
  outcome.tier = bucket < 0 ? "eager" : "aot";
  const int64_t rows = inputs[0].shape[0];
  const int64_t tokens = inputs[0].shape[1];
  const auto ids = ValuesOf<int64_t>(inputs[0]);
  RunResult result;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == kFailingId) {
      outcome.result = absl::InternalError("a failing id");
      return outcome;
    }
    if (ids[i] == kRefusedId) {
      outcome.result = absl::InvalidArgumentError("a refused id");
      return outcome;
    }
    if (ids[i] == kFaultyRowId) {
      result.faults.push_back({static_cast<int64_t>(i) / tokens, "a bad row"});
    }
    if (ids[i] == kFaultyNowhereId) {
      result.faults.push_back({-1, "a bad id"});
    }
  }
  result.outputs = {MakeTensor(DataType::kInt32, {rows, 2, tokens, 3},
                               Shifted(ids, rows, tokens)),
                    MakeTensor(DataType::kFp32, {rows},
                               Sums(ids, ValuesOf<float>(inputs[1]), tokens))};
  outcome.result = std::move(result);
  return outcome;
}

std::unique_ptr<InferTask> MakeTokenTask(
    const std::vector<std::vector<int64_t>>& ids) {
  const int64_t rows = static_cast<int64_t>(ids.size());
  const int64_t tokens = static_cast<int64_t>(ids[0].size());
  auto task = std::make_unique<InferTask>();
  task->inputs = {MakeTensor(DataType::kInt64, {rows, tokens}, Flat(ids)),
                  MakeTensor(DataType::kFp32, {rows}, Bias(ids.size()))};
  task->sizes = {rows, tokens};
  task->rows = rows;
  return task;
}

void ExpectRightAnswer(const absl::StatusOr<InferResult>& result,
                       const std::vector<std::vector<int64_t>>& ids) {
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->outputs.size(), 2u);
  const int64_t rows = static_cast<int64_t>(ids.size());
  const int64_t tokens = static_cast<int64_t>(ids[0].size());
  EXPECT_EQ(result->outputs[0].shape, Shape({rows, 2, tokens, 3}));
  EXPECT_EQ(result->outputs[1].shape, Shape({rows}));
  EXPECT_EQ(ValuesOf<int32_t>(result->outputs[0]),
            Shifted(Flat(ids), rows, tokens));
  EXPECT_EQ(ValuesOf<float>(result->outputs[1]),
            Sums(Flat(ids), Bias(ids.size()), tokens));
}

}  // namespace stoker
