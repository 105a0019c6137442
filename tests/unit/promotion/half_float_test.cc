// The software conversions of FP16 and BF16: exact where exact is possible, and
// rounded to nearest, ties to even, elsewhere.
#include "promotion/half_float.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace stoker {
namespace {

TEST(HalfFloatTest, EveryHalfSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    const float value = HalfToFloat(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value)))) << bits;
    } else {
      EXPECT_EQ(FloatToHalf(value), half) << bits;
    }
  }
}

TEST(HalfFloatTest, EveryBfloatSurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const auto bfloat = static_cast<uint16_t>(bits);
    const float value = BfloatToFloat(bfloat);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(BfloatToFloat(FloatToBfloat(value)))) << bits;
    } else {
      EXPECT_EQ(FloatToBfloat(value), bfloat) << bits;
    }
  }
}

TEST(HalfFloatTest, KnownHalves) {
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0xc000), -2.0f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0xfc00), -std::numeric_limits<float>::infinity());
}

TEST(HalfFloatTest, RoundsToNearestTiesToEven) {
  EXPECT_EQ(FloatToHalf(1 + 0x1p-11f), 0x3c00);             // tie, down to even
  EXPECT_EQ(FloatToHalf(1 + 3 * 0x1p-11f), 0x3c02);         // tie, up to even
  EXPECT_EQ(FloatToHalf(1 + 0x1p-11f + 0x1p-20f), 0x3c01);  // above the tie
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);  // rounds to infinity
  EXPECT_EQ(FloatToHalf(1e30f), 0x7c00);
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0x0000);  // tie with zero
  EXPECT_EQ(FloatToHalf(0x1.8p-25f), 0x0001);
  EXPECT_EQ(FloatToHalf(-0x1p-30f), 0x8000);
  EXPECT_EQ(FloatToBfloat(1 + 0x1p-8f), 0x3f80);
  EXPECT_EQ(FloatToBfloat(1 + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(FloatToBfloat(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace stoker
