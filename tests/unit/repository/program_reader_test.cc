#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program/program_digest.h"
#include "repository/model_repository.h"
#include "tests/unit/repository/read_spec.h"

namespace stoker {
namespace {

using json = nlohmann::json;
using testing::ElementsAre;

using Pointer = json::json_pointer;

TEST(ReadProgramTest, InputsAndOutputsAreTheAuthors) {
  const auto spec = ReadSpec(ProgramFixture());
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::vector<std::string> inputs, outputs;
  for (const InputSpec& input : spec->inputs) inputs.push_back(input.name);
  for (const OutputSpec& output : spec->outputs) outputs.push_back(output.name);
  EXPECT_THAT(inputs,
              ElementsAre("INPUT_ids", "Pair_0", "Pair_1_Left", "Mask"));
  EXPECT_THAT(outputs, ElementsAre("Scores", "Parts_0", "Parts_1"));
  EXPECT_EQ(spec->inputs[0].dtype, DataType::kInt32);
  EXPECT_EQ(spec->inputs[3].dtype, DataType::kFp32);
}

TEST(ReadProgramTest, DimensionsHaveNamesAndBounds) {
  const auto spec = ReadSpec(ProgramFixture());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_THAT(spec->DimensionNames(), ElementsAre("batch", "INPUT_ids.1"));
  EXPECT_EQ(spec->batch_dimension, 0);
  EXPECT_EQ(spec->dimensions[0].min, 1);
  EXPECT_EQ(spec->dimensions[0].max, 32);
  EXPECT_TRUE(spec->dimensions[0].padding);
  EXPECT_EQ(spec->dimensions[1].min, 2);
  EXPECT_EQ(spec->dimensions[1].max, 64);
  EXPECT_FALSE(spec->dimensions[1].padding);
  // Parts_0 is [batch, 2 * length].
  EXPECT_EQ(spec->outputs[1].dims[1].Evaluate({3, 5}), 10);
  EXPECT_EQ(spec->outputs[2].dims[2].Evaluate({3, 5}), 4);
}

TEST(ReadProgramTest, NoBatchDimensionUnlessSharedByAll) {
  ProgramFixture fixture;
  fixture.Edit(ProgramFixture::kProgram, [](json& program) {
    json& output = program[Pointer("/graph_module/graph/outputs/0")];
    const std::string name = output["as_tensor"]["name"];
    json& sizes = program["graph_module"]["graph"]["tensor_values"][name];
    sizes["sizes"][0] = {{"as_int", 3}};
  });
  const auto spec = ReadSpec(fixture);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->batch_dimension, std::nullopt);
  EXPECT_THAT(spec->DimensionNames(),
              ElementsAre("INPUT_ids.0", "INPUT_ids.1"));
}

TEST(ReadProgramTest, ItsDigestsAreTheProgramsAndTheWeights) {
  const ProgramFixture fixture;
  const auto spec = ReadSpec(fixture);
  ASSERT_TRUE(spec.ok()) << spec.status();
  const auto archive = fixture.Open();
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_EQ(spec->program_digest,
            ProgramDigest(**archive, *ReadSignature(**archive)));
  EXPECT_EQ(spec->weights_digest, WeightsDigest(**archive));
  EXPECT_EQ(spec->weights_bytes, (*archive)->weights_bytes());
}

TEST(ReadProgramTest, WhatIsNoProgramIsRefused) {
  ProgramFixture no_archive;
  no_archive.members.erase(ProgramFixture::kProgram);
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSpec(no_archive).status()));
  ProgramFixture no_signature;
  no_signature.Edit(ProgramFixture::kProgram, [](json& program) {
    program["graph_module"]["signature"].erase("output_specs");
  });
  EXPECT_TRUE(absl::IsInvalidArgument(ReadSpec(no_signature).status()));
}

TEST(ReadProgramTest, MissingFileIsNotFound) {
  EXPECT_EQ(ReadProgram("no/such/model.pt2").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stoker
