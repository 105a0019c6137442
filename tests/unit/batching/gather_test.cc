#include "batching/gather.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "batching/padding.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;

const DimExpr kBatch = DimExpr::Dimension(0);
const DimExpr kTokens = DimExpr::Dimension(1);

BatchLayout Layout(std::vector<BatchLayout::Input> inputs,
                   std::optional<int> batch_dimension = 0) {
  BatchLayout layout;
  layout.inputs = std::move(inputs);
  layout.batch_dimension = batch_dimension;
  layout.paddable = {true, true};
  return layout;
}

std::unique_ptr<InferTask> Task(DimensionSizes sizes,
                                std::vector<Tensor> inputs) {
  auto task = std::make_unique<InferTask>();
  task->rows = sizes[0];
  task->sizes = std::move(sizes);
  task->inputs = std::move(inputs);
  return task;
}

Batch BatchOf(std::vector<std::unique_ptr<InferTask>> tasks) {
  Batch batch;
  batch.tasks = std::move(tasks);
  return batch;
}

template <typename... Tasks>
Batch MakeBatch(Tasks... tasks) {
  std::vector<std::unique_ptr<InferTask>> list;
  (list.push_back(std::move(tasks)), ...);
  return BatchOf(std::move(list));
}

bool IsAligned(const Tensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.data) % 64 == 0;
}

TEST(Gatherer, PadsInnerAxesWithTheValueAndRowsWithTheLastRow) {
  const BatchLayout layout = Layout({{DataType::kInt64, {kBatch, kTokens}, 9}});
  Gatherer gatherer(layout);
  const Batch batch = MakeBatch(
      Task({1, 2}, {MakeTensor<int64_t>(DataType::kInt64, {1, 2}, {1, 2})}),
      Task({2, 1}, {MakeTensor<int64_t>(DataType::kInt64, {2, 1}, {3, 4})}));
  const auto inputs = gatherer.Gather(batch, {5, 3});
  ASSERT_EQ(inputs.size(), 1u);
  EXPECT_EQ(inputs[0].shape, Shape({5, 3}));
  EXPECT_TRUE(IsAligned(inputs[0]));
  EXPECT_THAT(ValuesOf<int64_t>(inputs[0]),
              ElementsAre(1, 2, 9, 3, 9, 9, 4, 9, 9, 4, 9, 9, 4, 9, 9));
}

TEST(Gatherer, PadsTheMiddleOfATensor) {
  const BatchLayout layout =
      Layout({{DataType::kUint8, {kBatch, kTokens, DimExpr::Constant(2)}, 7}});
  Gatherer gatherer(layout);
  const Batch batch = MakeBatch(
      Task({1, 1}, {MakeTensor<uint8_t>(DataType::kUint8, {1, 1, 2}, {1, 2})}),
      Task({1, 2},
           {MakeTensor<uint8_t>(DataType::kUint8, {1, 2, 2}, {3, 4, 5, 6})}));
  EXPECT_THAT(ValuesOf<uint8_t>(gatherer.Gather(batch, {2, 3})[0]),
              ElementsAre(1, 2, 7, 7, 7, 7, 3, 4, 5, 6, 7, 7));
}

TEST(Gatherer, PadValueInEveryDtype) {
  for (DataType dtype :
       {DataType::kBool, DataType::kUint8, DataType::kUint16, DataType::kUint32,
        DataType::kUint64, DataType::kInt8, DataType::kInt16, DataType::kInt32,
        DataType::kInt64, DataType::kFp16, DataType::kFp32, DataType::kFp64,
        DataType::kBf16}) {
    const size_t size = DataTypeSize(dtype);
    const BatchLayout layout = Layout({{dtype, {kBatch, kTokens}, 1}});
    Gatherer gatherer(layout);
    Tensor tensor = MakeTensor(dtype, {1, 1}, std::vector<char>(size, 5));
    const Batch batch = MakeBatch(Task({1, 1}, {tensor}));
    const Tensor input = gatherer.Gather(batch, {2, 2})[0];
    const auto bytes = ValuesOf<std::byte>(input);
    ASSERT_EQ(bytes.size(), 4 * size);
    const ElementBytes one = EncodeElement(1, dtype);
    for (size_t row = 0; row < 2; ++row) {
      const std::byte* at = bytes.data() + row * 2 * size;
      EXPECT_EQ(std::memcmp(at, tensor.data, size), 0) << DataTypeName(dtype);
      EXPECT_EQ(std::memcmp(at + size, one.data(), size), 0)
          << DataTypeName(dtype);
    }
  }
}

TEST(Gatherer, AnExactAlignedTaskIsNotCopied) {
  const BatchLayout layout = Layout({{DataType::kFp32, {kBatch, kTokens}, 0},
                                     {DataType::kFp32, {kBatch}, 0}});
  Gatherer gatherer(layout);
  const Tensor aligned =
      MakeTensor<float>(DataType::kFp32, {2, 2}, {1, 2, 3, 4});
  const Tensor misaligned =
      MakeTensor<float>(DataType::kFp32, {2}, {5, 6}, /*misalign=*/4);
  const Batch batch = MakeBatch(Task({2, 2}, {aligned, misaligned}));
  const auto inputs = gatherer.Gather(batch, {2, 2});
  EXPECT_EQ(inputs[0].data, aligned.data);
  EXPECT_EQ(inputs[0].owner, aligned.owner);
  EXPECT_NE(inputs[1].data, misaligned.data);
  EXPECT_TRUE(IsAligned(inputs[1]));
  EXPECT_THAT(ValuesOf<float>(inputs[1]), ElementsAre(5, 6));
}

TEST(Gatherer, ReleaseLetsGoOfTheTasksMemory) {
  const BatchLayout layout = Layout({{DataType::kFp32, {kBatch}, 0}});
  Gatherer gatherer(layout);
  const Tensor tensor = MakeTensor<float>(DataType::kFp32, {1}, {1});
  const Batch batch = MakeBatch(Task({1, 1}, {tensor}));
  gatherer.Gather(batch, {1, 1});
  EXPECT_EQ(tensor.owner.use_count(), 3);
  gatherer.Release();
  EXPECT_EQ(tensor.owner.use_count(), 2);
}

TEST(Gatherer, StagingIsReusedOnceItHasItsSize) {
  const BatchLayout layout = Layout({{DataType::kInt32, {kBatch, kTokens}, 0}});
  Gatherer gatherer(layout);
  const Batch batch = MakeBatch(
      Task({1, 1}, {MakeTensor<int32_t>(DataType::kInt32, {1, 1}, {1})}));
  const std::byte* const large = gatherer.Gather(batch, {8, 128})[0].data;
  EXPECT_EQ(gatherer.Gather(batch, {1, 16})[0].data, large);
  EXPECT_EQ(gatherer.Gather(batch, {8, 128})[0].data, large);
}

TEST(Gatherer, WithoutRowsEverythingIsPadding) {
  const BatchLayout layout = Layout({{DataType::kInt32, {kBatch, kTokens}, 6}});
  Gatherer gatherer(layout);
  const Batch batch = MakeBatch(
      Task({0, 2}, {MakeTensor<int32_t>(DataType::kInt32, {0, 2}, {})}));
  EXPECT_THAT(ValuesOf<int32_t>(gatherer.Gather(batch, {2, 2})[0]),
              ElementsAre(6, 6, 6, 6));
}

TEST(Gatherer, WithoutABatchDimensionEveryAxisIsPaddedAlike) {
  const BatchLayout layout = Layout(
      {{DataType::kInt32, {kBatch, kTokens}, 6}, {DataType::kInt32, {}, 6}},
      std::nullopt);
  Gatherer gatherer(layout);
  const Batch batch = MakeBatch(
      Task({1, 1}, {MakeTensor<int32_t>(DataType::kInt32, {1, 1}, {1}),
                    MakeTensor<int32_t>(DataType::kInt32, {}, {2}, 4)}));
  const auto inputs = gatherer.Gather(batch, {2, 2});
  EXPECT_THAT(ValuesOf<int32_t>(inputs[0]), ElementsAre(1, 6, 6, 6));
  EXPECT_THAT(ValuesOf<int32_t>(inputs[1]), ElementsAre(2));
}

TEST(Gatherer, WritesWhereItsOwnerSays) {
  const BatchLayout layout = Layout({{DataType::kInt64, {kBatch, kTokens}, 9}});
  std::vector<Buffer> given;
  Gatherer gatherer(layout,
                    [&](size_t bytes) { return given.emplace_back(bytes); });
  const auto batch = [](int64_t tokens) {
    return MakeBatch(
        Task({1, tokens},
             {MakeTensor<int64_t>(
                 DataType::kInt64, {1, tokens},
                 std::vector<int64_t>(static_cast<size_t>(tokens), 3))}));
  };
  const auto written = [&](int64_t tokens, int64_t run_tokens) {
    return gatherer.Gather(batch(tokens), {2, run_tokens})[0].data;
  };
  const std::byte* const first = written(2, 2);
  // Kept as long as it is large enough.
  const std::byte* const again = written(1, 2);
  const std::byte* const larger = written(3, 3);
  ASSERT_EQ(given.size(), 2u);
  EXPECT_EQ(first, given[0].data());
  EXPECT_EQ(again, first);
  EXPECT_EQ(larger, given[1].data());
  EXPECT_EQ(given[1].size(), 6 * sizeof(int64_t));
}

}  // namespace
}  // namespace stoker
