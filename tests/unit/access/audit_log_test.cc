#include "access/audit_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fakes/fake_clock.h"

namespace stoker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using enum AuditLog::Standing;

// The default logger of a test writes to stdout.
class AuditLogTest : public ::testing::Test {
 protected:
  void SetUp() override { testing::internal::CaptureStdout(); }
  static std::string Lines() {
    std::string lines = testing::internal::GetCapturedStdout();
    testing::internal::CaptureStdout();
    return lines;
  }
  static int Count(const std::string& text, const std::string& what) {
    int count = 0;
    for (size_t at = text.find(what); at != text.npos;
         at = text.find(what, at + 1)) {
      ++count;
    }
    return count;
  }
  void TearDown() override { testing::internal::GetCapturedStdout(); }

  AuditLog::Entry Of(std::string_view object) const {
    return {"web", "10.0.0.7", load_, object};
  }

  const Method& load_ = *FindMethodNamed("RepositoryModelLoad");
  FakeClock clock_;
  AuditLog audit_{clock_};
};

TEST_F(AuditLogTest, ALineSaysWhoDidWhat) {
  audit_.Change(Of("minilm"), kKnown);
  audit_.Refusal(Of(""), kKnown, "permission");
  const std::string lines = Lines();
  EXPECT_THAT(lines, HasSubstr("audit: caller=web peer=10.0.0.7 "
                               "method=RepositoryModelLoad object='minilm' "
                               "let in\n"));
  EXPECT_THAT(lines,
              HasSubstr("audit: caller=web peer=10.0.0.7 "
                        "method=RepositoryModelLoad refused: permission\n"));
}

TEST_F(AuditLogTest, ANameForgesNoLine) {
  audit_.Change(Of("a' let in\n2026 audit: caller=root\x1b[0m"), kKnown);
  const std::string lines = Lines();
  EXPECT_EQ(Count(lines, "\n"), 1);
  EXPECT_THAT(lines, HasSubstr("object='a\\' let in\\n2026"));
  EXPECT_THAT(lines, Not(HasSubstr("\x1b[0m let in")));
  audit_.Change(Of(std::string(10'000, 'x')), kKnown);
  EXPECT_LT(Lines().size(), 400);
}

TEST_F(AuditLogTest, RefusalsDoNotFillTheLog) {
  for (int i = 0; i < 1000; ++i)
    audit_.Refusal(Of("m"), kAnybody, "permission");
  EXPECT_EQ(Count(Lines(), "refused"), AuditLog::kLines);
  clock_.Advance(AuditLog::kWindow);
  audit_.Refusal(Of("m"), kAnybody, "permission");
  audit_.Refusal(Of("m"), kAnybody, "permission");
  const std::string lines = Lines();
  EXPECT_EQ(Count(lines, "refused"), 2);
  EXPECT_EQ(Count(lines, absl::StrCat("(", 1000 - AuditLog::kLines,
                                      " lines before it left out)")),
            1);
}

TEST_F(AuditLogTest, NobodyUnknownCrowdsOutWhoIsKnown) {
  for (int i = 0; i < 100; ++i) audit_.Refusal(Of("m"), kAnybody, "malformed");
  for (int i = 0; i < 100; ++i) audit_.Refusal(Of("m"), kKnown, "permission");
  EXPECT_EQ(Count(Lines(), "refused: permission"), AuditLog::kLines);
}

TEST_F(AuditLogTest, WhatWhoIsKnownChangesIsAlwaysThere) {
  for (int i = 0; i < 100; ++i) audit_.Refusal(Of("m"), kAnybody, "permission");
  for (int i = 0; i < 100; ++i) audit_.Change(Of("m"), kKnown);
  EXPECT_EQ(Count(Lines(), "let in"), 100);
  for (int i = 0; i < 100; ++i) audit_.Change(Of("m"), kAnybody);
  EXPECT_EQ(Count(Lines(), "let in"), 0);
}

}  // namespace
}  // namespace stoker
