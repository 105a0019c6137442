#include "telemetry/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stoker {
namespace {

int Drawn(double share, int times) {
  const Sampler sampler(share);
  int drawn = 0;
  for (int i = 0; i < times; ++i) drawn += sampler.Draw() ? 1 : 0;
  return drawn;
}

TEST(SamplerTest, NothingAndEverything) {
  EXPECT_EQ(Drawn(0, 1000), 0);
  EXPECT_EQ(Drawn(1, 1000), 1000);
}

// Ten standard deviations to either side.
TEST(SamplerTest, AShare) {
  EXPECT_THAT(Drawn(0.1, 10'000),
              ::testing::AllOf(::testing::Ge(700), ::testing::Le(1300)));
}

TEST(SamplerTest, BitsDiffer) { EXPECT_NE(RandomBits(), RandomBits()); }

}  // namespace
}  // namespace stoker
