// What is handed from step to step, and how it is held against a model.
#include "pipelines/step_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/fakes/tensors.h"
#include "tests/unit/pipelines/declared_models.h"

namespace stoker {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using enum DataType;

TEST(StepTensorsTest, ATensorIsSharedAndItsSizesAreFound) {
  const ModelSpec spec = RowsModel("m", kFp32, kFp32);
  const PassedTensor x{MakeTensor<float>(kFp32, {2, 3}, {1, 2, 3, 4, 5, 6})};
  const PassedTensor* given[] = {&x};
  const auto inputs = BindInputs(spec, given);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_EQ(inputs->tensors[0].data, x.tensor.data);
  EXPECT_THAT(inputs->sizes, ElementsAre(2, 3));
  EXPECT_EQ(inputs->rows, 2);
  EXPECT_EQ(OutputBytes(spec, inputs->sizes), 24u);
}

TEST(StepTensorsTest, WhatTheModelDoesNotTakeIsRefused) {
  const ModelSpec spec = RowsModel("m", kFp32, kFp32, 3, 3);
  const PassedTensor x{MakeTensor<float>(kFp32, {1, 2}, {1, 2})};
  const PassedTensor* given[] = {&x};
  EXPECT_THAT(BindInputs(spec, given).status().message(),
              HasSubstr("unexpected shape for input 'in' for model 'm'"));
  const PassedTensor many{
      MakeTensor<float>(kFp32, {9, 3}, std::vector<float>(27))};
  given[0] = &many;
  EXPECT_THAT(BindInputs(spec, given).status().message(),
              HasSubstr("batch-size must be <= 8"));
}

TEST(StepTensorsTest, RowsOfBytesAreMadeAsLongAsTheModelHasThem) {
  ModelSpec spec = RowsModel("m", kUint8, kFp32, 4, 4);
  spec.inputs[0].is_bytes = true;
  const PassedTensor x{MakeTensor<uint8_t>(kUint8, {2, 3}, {1, 2, 3, 4, 5, 6}),
                       true};
  const PassedTensor* given[] = {&x};
  const auto inputs = BindInputs(spec, given);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_THAT(ValuesOf<uint8_t>(inputs->tensors[0]),
              ElementsAre(1, 2, 3, 0, 4, 5, 6, 0));
}

TEST(StepTensorsTest, AReshapedOutputIsPassedAsClientsHaveIt) {
  ModelSpec spec = RowsModel("m", kFp32, kFp32, 4, 4);
  spec.outputs[0].reshape = Reshape{{-1, 2, 2}, {-1, 4}};
  const auto passed =
      PassOutput(spec, 0, MakeTensor<float>(kFp32, {1, 4}, {1, 2, 3, 4}));
  ASSERT_TRUE(passed.ok()) << passed.status();
  EXPECT_EQ(passed->tensor.shape, (Shape{1, 2, 2}));
}

}  // namespace
}  // namespace stoker
