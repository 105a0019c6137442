// A verdict's text comes back as the verdict; other text is refused.
#include "promotion/verdict.h"

#include <gtest/gtest.h>

#include <limits>

namespace stoker {
namespace {

Verdict Example() {
  Verdict verdict;
  verdict.promote = true;
  verdict.reason = "1.31 times as \"fast\"";
  verdict.rtol = 1e-4;
  verdict.atol = 2e-4;
  verdict.max_abs_error = 1.25e-6;
  verdict.cases = {{.seed = 0, .sizes = "batch=8", .max_abs_error = 1e-6},
                   {.seed = 1,
                    .sizes = "batch=7",
                    .max_abs_error = 2e-3,
                    .eager_rmse = 1e-4,
                    .compiled_rmse = std::numeric_limits<double>::infinity(),
                    .argmax_agreement = 0.75,
                    .difference = "output 0[1]"}};
  verdict.speedup = 1.31;
  verdict.speedup_low = 1.2;
  verdict.speedup_high = std::numeric_limits<double>::infinity();
  verdict.pairs = 14;
  verdict.candidate_seconds = 0.0129;
  verdict.incumbent_seconds = 0.0169;
  verdict.fastest_seconds = 0.0101;
  verdict.clear = false;
  verdict.measured_on = "0123456789ab";
  verdict.threads = 3;
  return verdict;
}

const Verdict kVerdict = Example();

void ExpectSame(const Verdict& a, const Verdict& b) {
  // The text has every field.
  EXPECT_EQ(VerdictToJson(a), VerdictToJson(b));
  EXPECT_EQ(a.promote, b.promote);
  EXPECT_EQ(a.max_abs_error, b.max_abs_error);
  EXPECT_EQ(a.speedup_high, b.speedup_high);
  EXPECT_EQ(a.pairs, b.pairs);
  EXPECT_EQ(a.clear, b.clear);
  EXPECT_EQ(a.measured_on, b.measured_on);
  EXPECT_EQ(a.threads, b.threads);
  ASSERT_EQ(a.cases.size(), b.cases.size());
  for (size_t i = 0; i < a.cases.size(); ++i) {
    EXPECT_EQ(a.cases[i].seed, b.cases[i].seed);
    EXPECT_EQ(a.cases[i].eager_rmse, b.cases[i].eager_rmse);
    EXPECT_EQ(a.cases[i].compiled_rmse, b.cases[i].compiled_rmse);
    EXPECT_EQ(a.cases[i].argmax_agreement, b.cases[i].argmax_agreement);
    EXPECT_EQ(a.cases[i].difference, b.cases[i].difference);
  }
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
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = right;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const std::string& text :
       {std::string(), std::string("null"), std::string("[1]"),
        std::string("{}"), right.substr(0, right.size() / 2),
        with("\"promote\": true", "\"promote\": 1"),
        with("\"pairs\": 14", "\"pairs\": -14"),
        with("\"pairs\": 14", "\"pears\": 14"),
        with("\"seed\": 1", "\"seed\": \"1\""),
        with("\"eager_rmse\": 0.0001", "\"eager_rmse\": \"0.0001\""),
        with("\"measured_on\": \"0123456789ab\"", "\"measured_on\": 1")}) {
    Verdict verdict = kVerdict;
    EXPECT_FALSE(ParseVerdict(text, verdict)) << text;
    ExpectSame(verdict, kVerdict);
  }
}

}  // namespace
}  // namespace stoker
