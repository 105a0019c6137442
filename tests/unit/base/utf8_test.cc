#include "base/utf8.h"

#include "gtest/gtest.h"

namespace stoker {
namespace {

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

}  // namespace
}  // namespace stoker
