// Both halves of a verdict come back from their text; other text is refused.
#include "promotion/verdict.h"

#include <gtest/gtest.h>

#include <limits>

namespace stoker {
namespace {

const Parity kParity{
    .equal = false,
    .reason = "seed 1, \"batch=7\"",
    .rtol = 1e-4,
    .atol = 2e-4,
    .max_abs_error = 1.25e-6,
    .cases = {{.seed = 0, .sizes = "batch=8", .max_abs_error = 1e-6},
              {.seed = 1,
               .sizes = "batch=7",
               .max_abs_error = 2e-3,
               .eager_rmse = 1e-4,
               .compiled_rmse = std::numeric_limits<double>::infinity(),
               .argmax_agreement = 0.75,
               .difference = "output 0[1]"}}};

const Profit kProfit{
    .worth = true,
    .reason = "1.31 times as \"fast\"",
    .speedup = 1.31,
    .speedup_low = 1.2,
    .speedup_high = std::numeric_limits<double>::infinity(),
    .pairs = 14,
    .candidate_seconds = 0.0129,
    .incumbent_seconds = 0.0169,
    .fastest_seconds = 0.0101,
    .clear = false,
    .measured_on = "0123456789ab",
    .threads = 3,
    .over_dynamic =
        OverDynamic{.artifact = "a1b2", .speedup = 1.5, .faster = true},
    .worth_on_fewer = false,
    .speedup_on_fewer = 0.76};

void ExpectSame(const Parity& a, const Parity& b) {
  // The text has every field.
  EXPECT_EQ(ParityToJson(a), ParityToJson(b));
  EXPECT_EQ(a.equal, b.equal);
  EXPECT_EQ(a.max_abs_error, b.max_abs_error);
  ASSERT_EQ(a.cases.size(), b.cases.size());
  for (size_t i = 0; i < a.cases.size(); ++i) {
    EXPECT_EQ(a.cases[i].seed, b.cases[i].seed);
    EXPECT_EQ(a.cases[i].eager_rmse, b.cases[i].eager_rmse);
    EXPECT_EQ(a.cases[i].compiled_rmse, b.cases[i].compiled_rmse);
    EXPECT_EQ(a.cases[i].argmax_agreement, b.cases[i].argmax_agreement);
    EXPECT_EQ(a.cases[i].difference, b.cases[i].difference);
  }
}

void ExpectSame(const Profit& a, const Profit& b) {
  EXPECT_EQ(ProfitToJson(a), ProfitToJson(b));
  EXPECT_EQ(a.worth, b.worth);
  EXPECT_EQ(a.speedup_high, b.speedup_high);
  EXPECT_EQ(a.pairs, b.pairs);
  EXPECT_EQ(a.clear, b.clear);
  EXPECT_EQ(a.measured_on, b.measured_on);
  EXPECT_EQ(a.threads, b.threads);
  EXPECT_EQ(a.worth_on_fewer, b.worth_on_fewer);
  EXPECT_EQ(a.speedup_on_fewer, b.speedup_on_fewer);
  ASSERT_EQ(a.over_dynamic.has_value(), b.over_dynamic.has_value());
  if (!a.over_dynamic.has_value()) return;
  EXPECT_EQ(a.over_dynamic->artifact, b.over_dynamic->artifact);
  EXPECT_EQ(a.over_dynamic->faster, b.over_dynamic->faster);
}

TEST(VerdictTest, SurvivesTheWayThroughText) {
  Parity parity;
  ASSERT_TRUE(ParseParity(ParityToJson(kParity), parity));
  ExpectSame(parity, kParity);
  Profit profit;
  ASSERT_TRUE(ParseProfit(ProfitToJson(kProfit), profit));
  ExpectSame(profit, kProfit);
}

TEST(VerdictTest, InfiniteErrorsSurvive) {
  Parity parity = kParity;
  parity.max_abs_error = std::numeric_limits<double>::infinity();
  Parity parsed;
  ASSERT_TRUE(ParseParity(ParityToJson(parity), parsed));
  ExpectSame(parsed, parity);
}

TEST(VerdictTest, ReasonsThatAreNotUtf8AreWritten) {
  Parity parity = kParity;
  parity.reason = "name \xff";
  Parity parsed;
  EXPECT_TRUE(ParseParity(ParityToJson(parity), parsed));
  EXPECT_EQ(parsed.reason, "name \xef\xbf\xbd");
}

std::string With(std::string text, const std::string& from,
                 const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(VerdictTest, OtherTextIsRefusedAndWhatWasThereKept) {
  const std::string parity_text = ParityToJson(kParity);
  const std::string profit_text = ProfitToJson(kProfit);
  const std::string no_text[] = {"", "null", "[1]", "{}"};
  for (const std::string& text :
       {no_text[0], no_text[1], no_text[2], no_text[3], profit_text,
        parity_text.substr(0, parity_text.size() / 2),
        With(parity_text, "\"equal\": false", "\"equal\": 1"),
        With(parity_text, "\"rtol\"", "\"tolr\""),
        With(parity_text, "\"seed\": 1", "\"seed\": \"1\""),
        With(parity_text, "\"eager_rmse\": 0.0001",
             "\"eager_rmse\": \"0.0001\"")}) {
    Parity parity = kParity;
    EXPECT_FALSE(ParseParity(text, parity)) << text;
    ExpectSame(parity, kParity);
  }
  for (const std::string& text :
       {no_text[0], no_text[1], no_text[2], no_text[3], parity_text,
        profit_text.substr(0, profit_text.size() / 2),
        With(profit_text, "\"worth\": true", "\"worth\": 1"),
        With(profit_text, "\"pairs\": 14", "\"pairs\": -14"),
        With(profit_text, "\"pairs\": 14", "\"pears\": 14"),
        With(profit_text, "\"faster\": true", "\"faster\": 1"),
        With(profit_text, "\"measured_on\": \"0123456789ab\"",
             "\"measured_on\": 1")}) {
    Profit profit = kProfit;
    EXPECT_FALSE(ParseProfit(text, profit)) << text;
    ExpectSame(profit, kProfit);
  }
}

// What is wrong doesn't serve, however fast it is.
TEST(VerdictTest, TakesBothHalves) {
  Verdict verdict{kParity, kProfit};
  EXPECT_FALSE(verdict.promote());
  EXPECT_EQ(verdict.refusal(), "parity");
  EXPECT_EQ(verdict.reason(), kParity.reason);
  verdict.parity.equal = true;
  EXPECT_TRUE(verdict.promote());
  EXPECT_EQ(verdict.refusal(), "");
  EXPECT_EQ(verdict.reason(), kProfit.reason);
  verdict.profit.worth = false;
  EXPECT_FALSE(verdict.promote());
  EXPECT_EQ(verdict.refusal(), "profit");
}

}  // namespace
}  // namespace stoker
