// What a candidate is tried on.
#include "planning/parity_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/planning/encoder_spec.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> Texts(const std::vector<CaseSizes>& cases) {
  std::vector<std::string> texts;
  texts.reserve(cases.size());
  for (const CaseSizes& one : cases) {
    texts.push_back(std::to_string(one.seed) + ShapeString(one.sizes) +
                    (one.padded ? " padded" : ""));
  }
  return texts;
}

TEST(ParityCasesTest, TheBucketsSizeAndTwoThatArePaddedToIt) {
  EXPECT_THAT(
      Texts(ParityCases(Encoder(), {{8, 32}})),
      ElementsAre("0[8,32]", "1[7,31] padded", "2[8,32]", "3[1,8] padded"));
}

TEST(ParityCasesTest, NoSizeIsBelowItsBound) {
  EXPECT_THAT(Texts(ParityCases(Encoder(), {{1, 9}})),
              ElementsAre("0[1,9]", "1[1,8] padded", "2[1,9]"));
  EXPECT_THAT(Texts(ParityCases(Encoder(), {{1, 8}})),
              ElementsAre("0[1,8]", "1[1,8]"));
}

TEST(ParityCasesTest, AsManyAsTheOperatorAsksFor) {
  ModelSpec spec = Encoder();
  spec.parity.cases = 4;
  EXPECT_EQ(ParityCases(spec, {{8, 32}}).size(), 6u);
  spec.parity.cases = 1;
  EXPECT_EQ(ParityCases(spec, {{8, 32}}).size(), 3u);
}

TEST(ParityCasesTest, OnlyWhatRequestsMayBePaddedAlong) {
  ModelSpec spec = Encoder();
  spec.dimensions[1].padding = false;
  EXPECT_THAT(
      Texts(ParityCases(spec, {{8, 32}})),
      ElementsAre("0[8,32]", "1[7,32] padded", "2[8,32]", "3[1,32] padded"));
  EXPECT_THAT(PaddedAlongEach(spec, {{8, 32}}), ::testing::SizeIs(1));
}

TEST(ParityCasesTest, AnOutputOfUnknownSizeIsNeverPadded) {
  ModelSpec spec = Encoder();
  spec.outputs[0].dims.push_back(DimExpr::Unknown());
  EXPECT_THAT(Texts(ParityCases(spec, {{8, 32}})),
              ElementsAre("0[8,32]", "1[8,32]"));
  EXPECT_THAT(PaddedAlongEach(spec, {{8, 32}}), IsEmpty());
}

TEST(PaddedAlongEachTest, OneDimensionAtATime) {
  const std::vector<PaddedSizes> along = PaddedAlongEach(Encoder(), {{8, 32}});
  ASSERT_EQ(along.size(), 2u);
  EXPECT_EQ(along[0].dimension, 0);
  EXPECT_EQ(along[0].sizes, DimensionSizes({4, 32}));
  EXPECT_EQ(along[1].dimension, 1);
  EXPECT_EQ(along[1].sizes, DimensionSizes({8, 19}));
  EXPECT_EQ(PaddedAlongEach(Encoder(), {{1, 8}}).size(), 0u);
}

}  // namespace
}  // namespace stoker
