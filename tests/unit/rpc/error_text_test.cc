#include "rpc/error_text.h"

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

TEST(ValidUtf8, ReplacesWhatIsNoCharacter) {
  EXPECT_EQ(ValidUtf8("plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "plain \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80");
  EXPECT_EQ(ValidUtf8("a\xFF"
                      "b\x80"),
            "a?b?");
  EXPECT_EQ(ValidUtf8("cut \xE2\x82"), "cut ??");
  EXPECT_EQ(ValidUtf8("\xC0\xAF"), "??");            // overlong
  EXPECT_EQ(ValidUtf8("\xE0\x80\xAF"), "???");       // overlong
  EXPECT_EQ(ValidUtf8("\xED\xA0\x80"), "???");       // surrogate
  EXPECT_EQ(ValidUtf8("\xF4\x90\x80\x80"), "????");  // beyond U+10FFFF
}

TEST(ShapeExcerpt, StopsAtSixteenDimensions) {
  EXPECT_EQ(ShapeExcerpt({}), "[]");
  EXPECT_EQ(ShapeExcerpt({1, -1, 3}), "[1,-1,3]");
  EXPECT_EQ(ShapeExcerpt(std::vector<int64_t>(17, 2)),
            "[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,...]");
}

}  // namespace
}  // namespace stoker
