#include "base/log_levels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/log.h"

namespace stoker::log {
namespace {

class LogLevelsTest : public ::testing::Test {
 protected:
  ~LogLevelsTest() override { SetLevels(before_); }
  // The default logger of a test writes to stdout.
  static std::string Said() {
    testing::internal::CaptureStdout();
    Debug("debug-line");
    Info("info-line");
    Warn("warn-line");
    Error("error-line");
    Critical("critical-line");
    return testing::internal::GetCapturedStdout();
  }

  const Levels before_ = CurrentLevels();
};

TEST_F(LogLevelsTest, EachOnItsOwn) {
  SetLevels({.verbose = 0, .info = true, .warning = false, .error = true});
  const std::string said = Said();
  for (const char* line : {"info-line", "error-line", "critical-line"}) {
    EXPECT_THAT(said, ::testing::HasSubstr(line));
  }
  for (const char* line : {"debug-line", "warn-line"}) {
    EXPECT_THAT(said, ::testing::Not(::testing::HasSubstr(line)));
  }
  EXPECT_FALSE(Enabled(Level::kWarn));
  EXPECT_TRUE(Enabled(Level::kError));
}

TEST_F(LogLevelsTest, WhatIsSetIsCurrent) {
  const Levels levels = {.verbose = 7, .info = false, .error = false};
  SetLevels(levels);
  EXPECT_EQ(CurrentLevels(), levels);
  EXPECT_THAT(Said(), ::testing::HasSubstr("debug-line"));
}

TEST_F(LogLevelsTest, ByTheLeastThatIsWritten) {
  EXPECT_EQ(Levels::From("debug"), (Levels{.verbose = 1}));
  EXPECT_EQ(Levels::From("info"), Levels());
  EXPECT_EQ(Levels::From("warn"), (Levels{.info = false}));
  EXPECT_EQ(Levels::From("error"), (Levels{.info = false, .warning = false}));
}

// As a library with a copy of its own does.
TEST_F(LogLevelsTest, ThoseOfSomebodyElse) {
  SetLevels({.info = false});
  LevelWord& own = KeptLevels();
  static LevelWord others = 0;  // nothing but what is critical
  ShareLevels(others);
  EXPECT_FALSE(Enabled(Level::kError));
  SetLevels(Levels());
  EXPECT_TRUE(Enabled(Level::kInfo));
  EXPECT_NE(others.load(), 0u);
  ShareLevels(own);
  EXPECT_EQ(CurrentLevels(), (Levels{.info = false}));
}

}  // namespace
}  // namespace stoker::log
