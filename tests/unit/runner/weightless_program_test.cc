// A program whose weights are inputs: which input is which, and what is left of
// the archive.
#include "runner/weightless_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nlohmann/json.hpp"
#include "program/program_archive.h"
#include "runner/program_writer.h"
#include "tests/unit/runner/torch_fixture.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(WeightlessProgramTest, TakesEveryWeightAsAnInput) {
  const auto original = ProgramArchive::Open(Made("lookup.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  const auto program = WriteWeightlessProgram(**original);
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

TEST(WeightlessProgramTest, HoldsTheGraphOnly) {
  const auto original = ProgramArchive::Open(Made("wide.pt2"));
  ASSERT_TRUE(original.ok()) << original.status();
  const auto program = WriteWeightlessProgram(**original);
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
