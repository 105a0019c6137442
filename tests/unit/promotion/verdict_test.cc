// A verdict's text comes back as the verdict; other text is refused.
#include "promotion/verdict.h"

#include <gtest/gtest.h>

#include <limits>

namespace stoker {
namespace {

const Verdict kVerdict{.promote = true,
                       .max_abs_error = 1.25e-6,
                       .speedup = 1.31,
                       .candidate_seconds = 0.0129,
                       .incumbent_seconds = 0.0169,
                       .reason = "1.31 times as \"fast\""};

void ExpectSame(const Verdict& a, const Verdict& b) {
  EXPECT_EQ(a.promote, b.promote);
  EXPECT_EQ(a.max_abs_error, b.max_abs_error);
  EXPECT_EQ(a.speedup, b.speedup);
  EXPECT_EQ(a.candidate_seconds, b.candidate_seconds);
  EXPECT_EQ(a.incumbent_seconds, b.incumbent_seconds);
  EXPECT_EQ(a.reason, b.reason);
}

TEST(VerdictTest, SurvivesTheWayThroughText) {
  Verdict parsed;
  ASSERT_TRUE(ParseVerdict(VerdictToJson(kVerdict), parsed));
  ExpectSame(parsed, kVerdict);
}

TEST(VerdictTest, InfiniteErrorsSurvive) {
  Verdict verdict = kVerdict;
  verdict.max_abs_error = std::numeric_limits<double>::infinity();
  Verdict parsed;
  ASSERT_TRUE(ParseVerdict(VerdictToJson(verdict), parsed));
  ExpectSame(parsed, verdict);
}

TEST(VerdictTest, ReasonsThatAreNotUtf8AreWritten) {
  Verdict verdict = kVerdict;
  verdict.reason = "name \xff";
  Verdict parsed;
  EXPECT_TRUE(ParseVerdict(VerdictToJson(verdict), parsed));
  EXPECT_EQ(parsed.reason, "name \xef\xbf\xbd");
}

TEST(VerdictTest, OtherTextIsRefusedAndTheVerdictKept) {
  const std::string right = VerdictToJson(kVerdict);
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[1]"),
        std::string("{}"), right.substr(0, right.size() / 2),
        std::string(R"({"promote": 1, "max_abs_error": 0, "speedup": 1,
                        "candidate_seconds": 1, "incumbent_seconds": 1,
                        "reason": ""})"),
        std::string(R"({"promote": true, "max_abs_error": "0", "speedup": 1,
                        "candidate_seconds": 1, "incumbent_seconds": 1,
                        "reason": ""})")}) {
    Verdict verdict = kVerdict;
    EXPECT_FALSE(ParseVerdict(text, verdict)) << text;
    ExpectSame(verdict, kVerdict);
  }
}

}  // namespace
}  // namespace stoker
