// Hundreds of damaged programs, seeded: whatever the damage, ReadProgram
// returns. What it must not do (crash, hang, read out of bounds, throw) shows
// by itself, best under the sanitizers of the dev preset.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/unit/repository/read_spec.h"

namespace stoker {
namespace {

using json = nlohmann::json;

// Counts outcomes, so that a test can tell damage that reached deep from damage
// that was all refused at the door.
struct Outcomes {
  int accepted = 0;
  int refused = 0;

  void Add(const absl::StatusOr<ModelSpec>& spec) {
    ++(spec.ok() ? accepted : refused);
    if (spec.ok()) {
      EXPECT_EQ(spec->program_digest.size(), 64u);
      ModelSpec copy = *spec;
      // A program that is accepted can be configured, or says why not.
      const absl::Status status = ApplyModelYaml("", "model.yaml", copy);
      EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    } else {
      EXPECT_TRUE(absl::IsInvalidArgument(spec.status()) ||
                  absl::IsNotFound(spec.status()))
          << spec.status();
    }
  }
};

TEST(ProgramMutationTest, TruncatedAnywhere) {
  const std::string bytes = ProgramFixture().Bytes();
  Outcomes outcomes;
  for (size_t length = 0; length < bytes.size(); length += 211) {
    outcomes.Add(ReadSpecOfBytes(bytes.substr(0, length)));
  }
  EXPECT_EQ(outcomes.accepted, 0);
}

TEST(ProgramMutationTest, BytesOfTheArchive) {
  const std::string bytes = ProgramFixture().Bytes();
  std::mt19937 random(20240607);
  Outcomes outcomes;
  for (int round = 0; round < 300; ++round) {
    std::string damaged = bytes;
    const int changes = 1 + static_cast<int>(random() % 4);
    for (int i = 0; i < changes; ++i) {
      // Half of the damage goes to the directory at the end.
      const size_t range = random() % 2 == 0
                               ? damaged.size()
                               : std::min<size_t>(900, damaged.size());
      damaged[damaged.size() - 1 - random() % range] =
          static_cast<char>(random());
    }
    outcomes.Add(ReadSpecOfBytes(damaged));
  }
  EXPECT_GT(outcomes.refused, 150);
}

TEST(ProgramMutationTest, BytesOfTheDocuments) {
  std::mt19937 random(7);
  const ProgramFixture pristine;
  Outcomes outcomes;
  for (int round = 0; round < 150; ++round) {
    ProgramFixture fixture = pristine;
    const char* const member =
        std::array{ProgramFixture::kProgram, ProgramFixture::kWeights,
                   ProgramFixture::kConstants}[random() % 3];
    std::string& text = fixture.members[member];
    const char kInteresting[] = "[]{}\",:0129-eE.\\ntfu\x80\xff";
    for (unsigned i = 0; i < 1 + random() % 3; ++i) {
      text[random() % text.size()] =
          kInteresting[random() % (sizeof(kInteresting) - 1)];
    }
    outcomes.Add(ReadSpec(fixture));
  }
  EXPECT_GT(outcomes.refused, 25);
  EXPECT_GT(outcomes.accepted, 3);
}

// All values of a document, to pick one from.
void Collect(json& value, std::vector<json*>& values) {
  values.push_back(&value);
  if (!value.is_structured()) return;
  for (json& child : value) Collect(child, values);
}

json AnyValue(std::mt19937& random) {
  const json values[] = {nullptr,
                         true,
                         0,
                         -1,
                         1,
                         INT64_MAX,
                         INT64_MIN,
                         UINT64_MAX,
                         1e300,
                         0.5,
                         "",
                         "s18",
                         "Symbol('s15', positive=True)",
                         "Mul(Symbol('s15'), Symbol('s18'))",
                         "[1, {\"type\": null}]",
                         std::string(70000, 'a'),
                         json::array(),
                         json::object(),
                         json::array({{{"as_int", 3}}}),
                         {{"as_tensor", {{"name", "mask"}}}},
                         {{"as_expr", {{"expr_str", "Symbol('u9')"}}}},
                         {{"target", "t"}, {"metadata", 1}}};
  return values[random() % std::size(values)];
}

// Damage that is valid JSON with valid checksums, and so reaches all of the
// reader.
TEST(ProgramMutationTest, ValuesOfTheDocuments) {
  std::mt19937 random(99);
  const ProgramFixture pristine;
  Outcomes outcomes;
  for (int round = 0; round < 250; ++round) {
    ProgramFixture fixture = pristine;
    const char* const member = std::array{
        ProgramFixture::kProgram, ProgramFixture::kProgram,
        ProgramFixture::kWeights, ProgramFixture::kConstants}[random() % 4];
    fixture.Edit(member, [&](json& document) {
      for (unsigned i = 0; i < 1 + random() % 2; ++i) {
        std::vector<json*> values;
        Collect(document, values);
        json& victim = *values[random() % values.size()];
        if (victim.is_structured() && !victim.empty() && random() % 2 == 0) {
          auto it = victim.begin();
          std::advance(it, random() % victim.size());
          victim.erase(it);
        } else {
          victim = AnyValue(random);
        }
      }
    });
    outcomes.Add(ReadSpec(fixture));
  }
  EXPECT_GT(outcomes.refused, 50);
  EXPECT_GT(outcomes.accepted, 15);
}

}  // namespace
}  // namespace stoker
