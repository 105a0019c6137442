#include "batching/scatter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tensor/shape_bucket.h"
#include "tests/fakes/tensors.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const DimExpr kBatch = DimExpr::Dimension(0);
const DimExpr kTokens = DimExpr::Dimension(1);

BatchLayout Layout(std::vector<BatchLayout::Output> outputs,
                   std::optional<int> batch_dimension = 0) {
  BatchLayout layout;
  layout.outputs = std::move(outputs);
  layout.batch_dimension = batch_dimension;
  layout.paddable = {true, true};
  return layout;
}

// Each element is its flat index.
Tensor Counting(const Shape& shape) {
  std::vector<int32_t> values(static_cast<size_t>(*ElementCount(shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int32_t>(i);
  }
  return MakeTensor(DataType::kInt32, shape, values);
}

Tensor CutOne(const std::vector<DimExpr>& dims, const Tensor& output,
              const DimensionSizes& sizes, int64_t first_row,
              std::optional<int> batch_dimension = 0) {
  const BatchLayout layout =
      Layout({{DataType::kInt32, dims}}, batch_dimension);
  auto cut = CutOutputs(layout, {output}, sizes, first_row);
  EXPECT_TRUE(cut.ok()) << cut.status();
  return cut.ok() ? (*cut)[0] : Tensor{};
}

TEST(CutOutputs, AWholeOutputIsShared) {
  const Tensor output = Counting({2, 3});
  const Tensor cut = CutOne({kBatch, kTokens}, output, {2, 3}, 0);
  EXPECT_EQ(cut.data, output.data);
  EXPECT_EQ(cut.owner, output.owner);
  EXPECT_EQ(cut.shape, output.shape);
  EXPECT_EQ(cut.byte_size, output.byte_size);
}

TEST(CutOutputs, RowsAreSharedSlices) {
  const Tensor output = Counting({4, 3});
  const Tensor cut = CutOne({kBatch, kTokens}, output, {2, 3}, 1);
  EXPECT_EQ(cut.data, output.data + 3 * sizeof(int32_t));
  EXPECT_EQ(cut.owner, output.owner);
  EXPECT_EQ(cut.shape, Shape({2, 3}));
  EXPECT_THAT(ValuesOf<int32_t>(cut), ElementsAre(3, 4, 5, 6, 7, 8));
}

// An answer is charged with its own bytes, and may lie for a minute with a
// client that doesn't take it.
TEST(CutOutputs, FewRowsDoNotKeepAllOthers) {
  constexpr int64_t kWidth = 2048;
  Tensor output = Counting({8, kWidth});
  const std::weak_ptr<const void> all = output.owner;
  const Tensor one = CutOne({kBatch, kTokens}, output, {1, kWidth}, 3);
  Tensor half = CutOne({kBatch, kTokens}, output, {4, kWidth}, 4);
  EXPECT_EQ(half.owner, output.owner);
  output = half = Tensor();
  EXPECT_TRUE(all.expired());
  EXPECT_EQ(one.shape, Shape({1, kWidth}));
  EXPECT_EQ(ValuesOf<int32_t>(one).front(), 3 * kWidth);
  EXPECT_EQ(ValuesOf<int32_t>(one).back(), 4 * kWidth - 1);
}

TEST(CutOutputs, AnInnerAxisIsCutIntoMemoryOfItsOwn) {
  const Tensor output = Counting({3, 4});
  const Tensor cut = CutOne({kBatch, kTokens}, output, {2, 2}, 1);
  EXPECT_NE(cut.owner, output.owner);
  EXPECT_EQ(cut.shape, Shape({2, 2}));
  EXPECT_THAT(ValuesOf<int32_t>(cut), ElementsAre(4, 5, 8, 9));
}

TEST(CutOutputs, TheMiddleAxisIsCut) {
  const Tensor cut =
      CutOne({kBatch, DimExpr::Constant(2), kTokens, DimExpr::Constant(2)},
             Counting({2, 2, 3, 2}), {1, 2}, 1);
  EXPECT_EQ(cut.shape, Shape({1, 2, 2, 2}));
  EXPECT_THAT(ValuesOf<int32_t>(cut),
              ElementsAre(12, 13, 14, 15, 18, 19, 20, 21));
}

TEST(CutOutputs, TwoAxesOfOneDimensionAreCut) {
  const Tensor cut =
      CutOne({kBatch, kTokens, kTokens}, Counting({2, 3, 3}), {1, 2}, 1);
  EXPECT_EQ(cut.shape, Shape({1, 2, 2}));
  EXPECT_THAT(ValuesOf<int32_t>(cut), ElementsAre(9, 10, 12, 13));
}

TEST(CutOutputs, ExpressionsAreEvaluatedAtTheTasksSizes) {
  const DimExpr half =
      DimExpr::Binary(DimExpr::Kind::kFloorDiv, kTokens, DimExpr::Constant(2));
  const DimExpr plus_one =
      DimExpr::Binary(DimExpr::Kind::kAdd, kTokens, DimExpr::Constant(1));
  EXPECT_EQ(CutOne({kBatch, half}, Counting({2, 4}), {2, 5}, 0).shape,
            Shape({2, 2}));
  EXPECT_EQ(CutOne({kBatch, plus_one}, Counting({2, 9}), {2, 5}, 0).shape,
            Shape({2, 6}));
}

TEST(CutOutputs, UnknownAxesAreNotCut) {
  const Tensor output = Counting({5, 4});
  const Tensor cut = CutOne({DimExpr::Unknown(), DimExpr::Constant(4)}, output,
                            {1, 1}, 0, std::nullopt);
  EXPECT_EQ(cut.shape, output.shape);
  EXPECT_EQ(cut.data, output.data);
}

TEST(CutOutputs, WithoutABatchDimensionAxesAreCutFromTheirBegin) {
  EXPECT_THAT(ValuesOf<int32_t>(CutOne({kTokens, kBatch}, Counting({3, 3}),
                                       {2, 2}, 0, std::nullopt)),
              ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(
      ValuesOf<int32_t>(CutOne({}, Counting({}), {2, 2}, 0, std::nullopt)),
      ElementsAre(0));
}

TEST(CutOutputs, AnOutputSmallerThanTheTaskIsAnError) {
  const DimExpr shrinking =
      DimExpr::Binary(DimExpr::Kind::kMod, kTokens, DimExpr::Constant(4));
  const BatchLayout layout = Layout({{DataType::kInt32, {kBatch, shrinking}}});
  const auto cut = CutOutputs(layout, {Counting({1, 0})}, {1, 3}, 0);
  EXPECT_EQ(cut.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr("[1,3]"));
}

TEST(CheckOutputs, TakesWhatTheLayoutSays) {
  const BatchLayout layout = Layout({{DataType::kInt32, {kBatch, kTokens}},
                                     {DataType::kInt32, {DimExpr::Unknown()}}});
  EXPECT_TRUE(
      CheckOutputs(layout, {2, 3}, {Counting({2, 3}), Counting({7})}).ok());
}

TEST(CheckOutputs, RefusesEverythingElse) {
  const BatchLayout layout = Layout({{DataType::kInt32, {kBatch, kTokens}}});
  Tensor short_of_bytes = Counting({2, 3});
  short_of_bytes.byte_size -= 1;
  Tensor without_bytes = Counting({2, 3});
  without_bytes.data = nullptr;
  Tensor negative = Counting({2, 3});
  negative.shape = {-2, -3};
  const std::vector<std::pair<const char*, std::vector<Tensor>>> cases = {
      {"no output", {}},
      {"two outputs", {Counting({2, 3}), Counting({2, 3})}},
      {"dtype", {MakeTensor(DataType::kFp32, {2, 3}, std::vector<float>(6))}},
      {"rows", {Counting({3, 3})}},
      {"tokens", {Counting({2, 2})}},
      {"rank", {Counting({2, 3, 1})}},
      {"bytes", {short_of_bytes}},
      {"null", {without_bytes}},
      {"negative", {negative}},
  };
  for (const auto& [name, outputs] : cases) {
    const absl::Status status = CheckOutputs(layout, {2, 3}, outputs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << name;
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected")) << name;
  }
}

}  // namespace
}  // namespace stoker
