#include "base/error_text.h"

#include <gtest/gtest.h>

#include <vector>

namespace stoker {
namespace {

TEST(Excerpt, CutsLongTextAtACharacter) {
  EXPECT_EQ(Excerpt("short"), "short");
  EXPECT_EQ(Excerpt("12345678", 8), "12345678");
  EXPECT_EQ(Excerpt("123456789", 8), "12345678...");
  // "é" is two bytes: half of one is never shown.
  EXPECT_EQ(Excerpt("ab\xC3\xA9"
                    "cd",
                    3),
            "ab...");
  EXPECT_EQ(Excerpt("ab\xC3\xA9"
                    "cd",
                    4),
            "ab\xC3\xA9...");
}

TEST(ShapeExcerpt, StopsAtSixteenDimensions) {
  EXPECT_EQ(ShapeExcerpt({}), "[]");
  EXPECT_EQ(ShapeExcerpt({1, -1, 3}), "[1,-1,3]");
  EXPECT_EQ(ShapeExcerpt(std::vector<int64_t>(17, 2)),
            "[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,...]");
}

}  // namespace
}  // namespace stoker
