// Timing pairs on a clock that the executables move, and the judgement on
// numbers.
#include "promotion/profitability_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_executable.h"

namespace stoker {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::SizeIs;

absl::StatusOr<RunResult> Nothing(absl::Span<const Tensor> /*inputs*/) {
  return RunResult();
}

class MeasureProfitTest : public ::testing::Test {
 protected:
  MeasureProfitTest() : eager_("eager", Nothing), compiled_("aot", Nothing) {
    eager_.TakeTime(clock_, absl::Milliseconds(20));
    compiled_.TakeTime(clock_, absl::Milliseconds(10));
  }

  absl::StatusOr<ProfitMeasurement> Measure(const ProfitOptions& options) {
    return MeasureProfit(eager_, compiled_, context_, {}, clock_, options);
  }

  FakeClock clock_;
  FakeExecutable eager_;
  FakeExecutable compiled_;
  FakeExecutionContext context_;
};

TEST_F(MeasureProfitTest, TimesEveryPairAfterOneRunThatDoesNotCount) {
  const auto measured = Measure({.pairs = 5});
  ASSERT_TRUE(measured.ok()) << measured.status();
  EXPECT_THAT(measured->incumbent, SizeIs(5));
  EXPECT_THAT(measured->candidate, SizeIs(5));
  EXPECT_THAT(measured->incumbent, Each(DoubleNear(0.020, 1e-9)));
  EXPECT_THAT(measured->candidate, Each(DoubleNear(0.010, 1e-9)));
  EXPECT_EQ(eager_.runs(), 6);
  EXPECT_EQ(compiled_.runs(), 6);
}

TEST_F(MeasureProfitTest, StopsWhenTheBudgetIsSpent) {
  // 30 ms of runs that don't count, then 30 ms a pair: the third pair starts at
  // 90 ms, the fourth would at 120 ms.
  const auto measured = Measure(
      {.pairs = 7, .budget = absl::Milliseconds(100), .fewest_pairs = 2});
  ASSERT_TRUE(measured.ok());
  EXPECT_THAT(measured->incumbent, SizeIs(3));
  EXPECT_THAT(measured->candidate, SizeIs(3));
}

TEST_F(MeasureProfitTest, MeasuresEnoughPairsToJudgeByWhateverTheBudget) {
  const auto measured = Measure({.pairs = 7, .budget = absl::ZeroDuration()});
  ASSERT_TRUE(measured.ok());
  EXPECT_THAT(measured->candidate, SizeIs(5));
}

TEST_F(MeasureProfitTest, MeasuresOnePairWhateverThePatience) {
  const auto measured = Measure({.pairs = 7, .patience = absl::ZeroDuration()});
  ASSERT_TRUE(measured.ok());
  EXPECT_THAT(measured->incumbent, SizeIs(1));
  EXPECT_THAT(measured->candidate, SizeIs(1));
}

TEST_F(MeasureProfitTest, AFailingRunEndsTheMeasurement) {
  compiled_.FailNext(1, absl::ResourceExhaustedError("out of memory"));
  EXPECT_EQ(Measure({}).status(),
            absl::ResourceExhaustedError("out of memory"));
}

struct JudgeCase {
  const char* name;
  ProfitMeasurement measurement;
  bool promote;
  double speedup;
};

class JudgeProfitTest : public ::testing::TestWithParam<JudgeCase> {};

TEST_P(JudgeProfitTest, Judges) {
  const JudgeCase& row = GetParam();
  const Verdict verdict = JudgeProfit(row.measurement, {.min_speedup = 0.98});
  EXPECT_EQ(verdict.promote, row.promote) << verdict.reason;
  EXPECT_NEAR(verdict.speedup, row.speedup, 1e-9);
  EXPECT_FALSE(verdict.reason.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Table, JudgeProfitTest,
    ::testing::Values(
        JudgeCase{"Faster", {{2, 2, 2}, {1, 1, 1}}, true, 2},
        JudgeCase{"AsFast", {{1, 1, 1}, {1, 1, 1}}, true, 1},
        JudgeCase{"JustSlowEnough", {{0.98}, {1}}, true, 0.98},
        JudgeCase{"AFewPairsProveNoSmallLoss", {{0.9, 0.9}, {1, 1}}, true, 0.9},
        JudgeCase{"PlainlyTooSlow", {{0.7, 0.5}, {1, 1}}, false, 0.6},
        JudgeCase{
            "OneSlowOutlierOfTheCandidate", {{2, 2, 2}, {1, 100, 1}}, true, 2},
        JudgeCase{"OneSlowOutlierOfTheIncumbent",
                  {{1, 1, 100, 1, 1, 1, 1, 1}, {2, 2, 2, 2, 2, 2, 2, 2}},
                  false,
                  0.5},
        // Both get slower together: the pairs' ratios stay what they are.
        JudgeCase{"AMachineThatSlowsDown", {{2, 4, 8}, {1, 2, 4}}, true, 2},
        // Five of seven slower is what noise alone does; seven of seven is not.
        JudgeCase{"MostlySlowerByNoise",
                  {{5, 5, 5, 5, 5, 10, 10}, {6, 6, 6, 6, 6, 5, 5}},
                  true,
                  5.0 / 6},
        JudgeCase{"SlowerEachTime",
                  {{5, 5, 5, 5, 5, 5, 5}, {6, 6, 6, 6, 6, 6, 6}},
                  false,
                  5.0 / 6},
        JudgeCase{"AnEvenNumberOfPairs", {{1, 3}, {1, 1}}, true, 2},
        JudgeCase{"ShorterThanTheClock", {{0}, {0}}, true, 1},
        JudgeCase{"NotMeasured", {{}, {}}, false, 0}),
    [](const auto& test) { return test.param.name; });

TEST(JudgeProfitReasonTest, SaysTheNumbers) {
  const ProfitMeasurement slower{{0.010, 0.010}, {0.020, 0.020}};
  const Verdict verdict = JudgeProfit(slower, {.min_speedup = 0.98});
  EXPECT_EQ(verdict.incumbent_seconds, 0.010);
  EXPECT_EQ(verdict.candidate_seconds, 0.020);
  EXPECT_EQ(verdict.reason,
            "0.50 times as fast (20.000 ms against 10.000 ms, 2 pairs), "
            "expected at least 0.98");
}

}  // namespace
}  // namespace stoker
