// What the notes beside an artifact are named after, and which of them travel.
#include "planning/note_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/unit/planning/encoder_spec.h"

namespace stoker {
namespace {

using ::testing::Not;
using ::testing::StartsWith;

constexpr ComputePrecision kFloat32 = ComputePrecision::kFloat32;

const ArtifactId kArtifact{ArtifactKey(KeyFactors()), std::string(64, '1')};

TEST(ParityNoteNameTest, ChangesWithWhatParityDependsOn) {
  const ModelSpec spec = Encoder();
  EXPECT_THAT(ParityNoteName(kArtifact, spec), StartsWith("parity-"));
  EXPECT_THAT(ReproducerNoteName(kArtifact, spec), StartsWith("reproducer-"));
  std::set<std::string> names = {ParityNoteName(kArtifact, spec)};
  const auto expect_another = [&](auto change) {
    ModelSpec changed = Encoder();
    change(changed);
    EXPECT_TRUE(names.insert(ParityNoteName(kArtifact, changed)).second);
  };
  expect_another([](ModelSpec& s) { s.weights_digest = "4567"; });
  expect_another([](ModelSpec& s) { s.parity.rtol = 1e-3; });
  expect_another([](ModelSpec& s) { s.parity.atol = 1e-3; });
  expect_another([](ModelSpec& s) { s.parity.cases = 3; });
  expect_another([](ModelSpec& s) { s.inputs[0].range.emplace(0, 9); });
  expect_another([](ModelSpec& s) { s.inputs[0].pad_value = 1; });
  expect_another([](ModelSpec& s) { s.dimensions[1].padding = false; });
  ModelSpec renamed = spec;
  renamed.name = "other";
  renamed.instances = 4;
  EXPECT_EQ(ParityNoteName(kArtifact, renamed),
            ParityNoteName(kArtifact, spec));
}

TEST(NoteNamesTest, AreOfOneArtifact) {
  const ModelSpec spec = Encoder();
  const ArtifactId other{kArtifact.key, std::string(64, '2')};
  EXPECT_NE(ParityNoteName(other, spec), ParityNoteName(kArtifact, spec));
  EXPECT_NE(ReproducerNoteName(other, spec),
            ReproducerNoteName(kArtifact, spec));
  EXPECT_NE(GraphNoteName(other, "01"), GraphNoteName(kArtifact, "01"));
  EXPECT_NE(ProfitNoteName(other, kFloat32, "01", 2),
            ProfitNoteName(kArtifact, kFloat32, "01", 2));
  EXPECT_NE(Int8FactorsNoteName(other, spec),
            Int8FactorsNoteName(kArtifact, spec));
  EXPECT_NE(FirstRunNoteName(other, "01"), FirstRunNoteName(kArtifact, "01"));
}

// Whatever the weights.
TEST(ProfitNoteNameTest, IsOfAMachineAndThreads) {
  const std::string name = ProfitNoteName(kArtifact, kFloat32, "01", 2);
  EXPECT_THAT(name, StartsWith(ProfitNotePrefix(kArtifact, kFloat32)));
  EXPECT_NE(ProfitNoteName(kArtifact, kFloat32, "02", 2), name);
  EXPECT_NE(ProfitNoteName(kArtifact, kFloat32, "01", 3), name);
}

// The artifact is the one of float32.
TEST(ProfitNoteNameTest, IsOfTheIntegersThatLayersComputeWith) {
  const std::string name =
      ProfitNoteName(kArtifact, ComputePrecision::kInt8, "01", 2);
  EXPECT_THAT(name,
              StartsWith(ProfitNotePrefix(kArtifact, ComputePrecision::kInt8)));
  EXPECT_THAT(name, Not(StartsWith(ProfitNotePrefix(kArtifact, kFloat32))));
  ModelSpec spec = Encoder();
  const std::string parity = ParityNoteName(kArtifact, spec);
  spec.compile.precision = ComputePrecision::kInt8;
  EXPECT_NE(ParityNoteName(kArtifact, spec), parity);
}

TEST(NotesThatStayTest, VerdictsTravelAndWhatIsOfOneMachineDoesNot) {
  const LocalNotes& local = NotesThatStay();
  EXPECT_FALSE(local.Has(ParityNoteName(kArtifact, Encoder())));
  EXPECT_FALSE(local.Has(ProfitNoteName(kArtifact, kFloat32, "0123", 2)));
  EXPECT_FALSE(local.Has(Int8FactorsNoteName(kArtifact, Encoder())));
  EXPECT_FALSE(local.Has(GraphNoteName(kArtifact, "0123")));
  EXPECT_TRUE(local.Has(FirstRunNoteName(kArtifact, "0123")));
  EXPECT_TRUE(local.Has(ReproducerNoteName(kArtifact, Encoder())));
  EXPECT_TRUE(local.Has("pinned"));
}

}  // namespace
}  // namespace stoker
