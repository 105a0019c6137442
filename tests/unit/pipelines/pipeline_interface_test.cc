// What a pipeline takes and gives, and which models can't follow each other.
#include "pipelines/pipeline_interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/pipelines/declared_models.h"

namespace stoker {
namespace {

using testing::HasSubstr;
using enum DataType;

std::string ErrorOf(const ModelSpec& pipeline,
                    const std::vector<ModelSpec>& models) {
  std::vector<const ModelSpec*> pointers;
  for (const ModelSpec& model : models) pointers.push_back(&model);
  const auto made = WithInterface(pipeline, pointers);
  return made.ok() ? "" : std::string(made.status().message());
}

TEST(PipelineInterfaceTest, FollowsFromTheModels) {
  const ModelSpec encoder = RowsModel("encoder", kInt64, kFp32);
  ModelSpec head = RowsModel("head", kFp32, kFp32);
  head.max_batch_size = 4;
  head.dimensions[1].max = 64;
  head.outputs[0].dims[1] = DimExpr::Constant(3);
  const ModelSpec* models[] = {&encoder, &head};
  const auto made = WithInterface(*ChainOf("p", {"encoder", "head"}), models);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ(made->inputs.size(), 1u);
  EXPECT_EQ(made->inputs[0].name, "x");
  EXPECT_EQ(made->inputs[0].dtype, kInt64);
  EXPECT_EQ(made->outputs[0].dtype, kFp32);
  EXPECT_EQ(made->outputs[0].dims[1].constant(), 3);
  // Joined through the tensor between the two.
  ASSERT_EQ(made->dimensions.size(), 2u);
  EXPECT_EQ(made->dimensions[1].name, "tokens");
  EXPECT_EQ(made->dimensions[1].max, 64);
  EXPECT_EQ(made->batch_dimension, 0);
  EXPECT_EQ(made->max_batch_size, 4);
}

TEST(PipelineInterfaceTest, AConstantOfOneModelIsOneOfThePipeline) {
  const ModelSpec any = RowsModel("any", kFp32, kFp32);
  const ModelSpec fixed = RowsModel("fixed", kFp32, kFp32, 7, 7);
  const ModelSpec* models[] = {&any, &fixed};
  const auto made = WithInterface(*ChainOf("p", {"any", "fixed"}), models);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->inputs[0].dims[1].constant(), 7);
}

TEST(PipelineInterfaceTest, WhatDoesNotFitIsToldWithStepAndTensor) {
  const auto chain = ChainOf("p", {"a", "b"});
  EXPECT_THAT(ErrorOf(*chain, {RowsModel("a", kFp32, kInt64),
                               RowsModel("b", kFp32, kFp32)}),
              HasSubstr("step 'step1': tensor 't0': input 'in' of model 'b' "
                        "takes FP32 [-1,-1], and 'out' of step 'step0' is "
                        "INT64 [-1,-1]: another datatype"));
  EXPECT_THAT(ErrorOf(*chain, {RowsModel("a", kFp32, kFp32, 4, 4),
                               RowsModel("b", kFp32, kFp32, 5, 5)}),
              HasSubstr("[-1,5], and 'out' of step 'step0' is FP32 [-1,4]: no "
                        "size of axis 1 fits both"));
  EXPECT_THAT(ErrorOf(*chain, {RowsModel("a", kFp32, kFp32, 4, 300),
                               RowsModel("b", kFp32, kFp32)}),
              HasSubstr("no size of axis 1 fits both"));
  ModelSpec flat = RowsModel("b", kFp32, kFp32);
  flat.inputs[0].dims.pop_back();
  EXPECT_THAT(ErrorOf(*chain, {RowsModel("a", kFp32, kFp32), flat}),
              HasSubstr("as many dimensions were expected"));
  ModelSpec other = RowsModel("b", kFp32, kFp32);
  other.inputs[0].name = "pixels";
  EXPECT_THAT(ErrorOf(*chain, {RowsModel("a", kFp32, kFp32), other}),
              HasSubstr("step 'step1': expected an input of model 'b' "
                        "(pixels), got in"));
  other = RowsModel("b", kFp32, kFp32);
  other.inputs.push_back(other.inputs[0]);
  other.inputs[1].name = "mask";
  EXPECT_THAT(ErrorOf(*chain, {RowsModel("a", kFp32, kFp32), other}),
              HasSubstr("expected all inputs of model 'b', got none for "
                        "'mask'"));
  other = RowsModel("b", kFp32, kFp32);
  other.outputs[0].name = "logits";
  EXPECT_THAT(ErrorOf(*chain, {RowsModel("a", kFp32, kFp32), other}),
              HasSubstr("expected an output of model 'b' (logits), got out"));
}

TEST(PipelineInterfaceTest, WhatTheAuthorSaysIsHeldAgainstIt) {
  const auto chain = ChainOf("p", {"a"});
  auto pipeline = std::make_shared<PipelineSpec>(*chain->pipeline);
  pipeline->inputs[0].dtype = kInt32;
  pipeline->inputs[0].dims = Shape{-1, -1};
  ModelSpec spec = *chain;
  spec.pipeline = pipeline;
  EXPECT_THAT(ErrorOf(spec, {RowsModel("a", kFp32, kFp32)}),
              HasSubstr("input 'x' of the pipeline: expected FP32 [-1,-1] as "
                        "'in' of step 'step0', got INT32 [-1,-1]"));
  pipeline->inputs[0].dtype = kFp32;
  EXPECT_EQ(ErrorOf(spec, {RowsModel("a", kFp32, kFp32)}), "");
}

}  // namespace
}  // namespace stoker
