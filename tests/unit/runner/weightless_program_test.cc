// A program whose weights are inputs: which input is which, and what is left of
// the archive.
#include "runner/weightless_program.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "program/program_archive.h"
#include "runner/device_program.h"
#include "runner/program_writer.h"
#include "tests/unit/runner/torch_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(WeightlessProgramTest, TakesEveryWeightAsAnInput) {
  const auto original = ProgramArchive::Open(Made("lookup.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  const auto program = WriteWeightlessProgram(**original, Device{});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_THAT(program->inputs, ElementsAre("table.weight", "tied.weight",
                                           "shift", "scale", "", ""));
  const auto written = ProgramArchive::Open(PathOfDescriptor(program->file));
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_THAT((*written)->tensors(), IsEmpty());
  EXPECT_EQ((*written)->weights_bytes(), 0);
  const nlohmann::json& before = (*original)->program()["graph_module"];
  const nlohmann::json& after = (*written)->program()["graph_module"];
  EXPECT_EQ(after["graph"], before["graph"]);
  EXPECT_EQ(after["signature"]["output_specs"],
            before["signature"]["output_specs"]);
}

TEST(WeightlessProgramTest, IsForTheDeviceThatIsAskedFor) {
  const auto original = ProgramArchive::Open(Made("lookup.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  const Device gpu = *ParseDevice("cuda:1");
  const auto program = WriteWeightlessProgram(**original, gpu);
  ASSERT_TRUE(program.ok()) << program.status();
  const std::string path = PathOfDescriptor(program->file);
  const auto written = ProgramArchive::Open(path);
  ASSERT_TRUE(written.ok()) << written.status();
  nlohmann::json expected = (*original)->program();
  PlaceFactories(expected, gpu);
  MoveDevices(expected, gpu);
  EXPECT_NE(expected, (*original)->program());
  EXPECT_EQ((*written)->program()["graph_module"]["graph"],
            expected["graph_module"]["graph"]);
  const auto loader = MakeCpuLoader();
  for (const absl::Status& status : {loader->OpenEager(path, nullptr).status(),
                                     loader->MapWeights(path).status()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("was exported on a GPU"));
  }
}

TEST(WeightlessProgramTest, HasNoWrappers) {
  const auto original = ProgramArchive::Open(Made("wrapped.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  EXPECT_TRUE((*original)->is_rewritten());
  const auto program = WriteWeightlessProgram(**original, Device{});
  ASSERT_TRUE(program.ok()) << program.status();
  const auto written = ProgramArchive::Open(PathOfDescriptor(program->file));
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_FALSE((*written)->is_rewritten());
}

TEST(WeightlessProgramTest, ARunGivesAllInputsOrFails) {
  const at::Tensor weight = at::ones({1});
  const at::Tensor given = at::zeros({2});
  const std::vector<at::Tensor> weights = {weight, {}, weight};
  const auto arguments = WithWeights(weights, {given});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  ASSERT_EQ(arguments->size(), 3u);
  EXPECT_TRUE((*arguments)[1].toTensor().is_same(given));
  EXPECT_TRUE((*arguments)[2].toTensor().is_same(weight));
  EXPECT_TRUE(absl::IsInternal(WithWeights(weights, {}).status()));
  EXPECT_TRUE(absl::IsInternal(WithWeights(weights, {given, given}).status()));
}

TEST(WeightlessProgramTest, HoldsTheGraphOnly) {
  const auto original = ProgramArchive::Open(Made("wide.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  const auto program = WriteWeightlessProgram(**original, Device{});
  ASSERT_TRUE(program.ok()) << program.status();
  const auto zip = ZipArchive::Open(PathOfDescriptor(program->file));
  ASSERT_TRUE(zip.ok()) << zip.status();
  for (const auto& [name, member] : (*zip)->members()) {
    EXPECT_LT(member.size, 100'000u) << name;
    EXPECT_EQ(name.find("data/weights/weight_"), name.npos);
    EXPECT_EQ(name.find("sample_inputs"), name.npos);
  }
}

}  // namespace
}  // namespace stoker
