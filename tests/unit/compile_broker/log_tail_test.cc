#include "compile_broker/log_tail.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker {
namespace {

TEST(LogTailTest, KeepsTheEndOnly) {
  LogTail tail;
  for (int i = 0; i < 10'000; ++i) {
    tail.Append("line " + std::to_string(i) + " of the log\n");
  }
  EXPECT_EQ(tail.size(), LogTail::kMaxBytes);
  EXPECT_EQ(tail.LastLines(50), "line 9998 of the log\nline 9999 of the log");
  tail.Append(std::string(LogTail::kMaxBytes, 'x') + "y");
  EXPECT_EQ(tail.size(), LogTail::kMaxBytes);
  EXPECT_EQ(tail.LastLines(3), "xxy");
}

TEST(LogTailTest, LastLinesAreWholeAndWithoutBlankOnes) {
  LogTail tail;
  EXPECT_EQ(tail.LastLines(100), "");
  tail.Append("one\ntwo\n");
  tail.Append("three\n\n \n");
  EXPECT_EQ(tail.LastLines(100), "one\ntwo\nthree");
  EXPECT_EQ(tail.LastLines(9), "two\nthree");
  EXPECT_EQ(tail.LastLines(8), "three");
  EXPECT_EQ(tail.LastLines(5), "three");
  EXPECT_EQ(tail.LastLines(4), "hree");
}

}  // namespace
}  // namespace stoker
