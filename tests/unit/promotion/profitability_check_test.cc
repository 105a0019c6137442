// Timing pairs on a clock that the executables move, the judgement on numbers,
// and how often it is right on noisy ones.
#include "promotion/profitability_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_executable.h"

namespace stoker {
namespace {

using ::testing::DoubleNear;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::SizeIs;

absl::StatusOr<RunResult> Nothing(absl::Span<const Tensor> /*inputs*/) {
  return RunResult();
}

class MeasurePairsTest : public ::testing::Test {
 protected:
  MeasurePairsTest() : eager_("eager", Nothing), compiled_("aot", Nothing) {
    eager_.TakeTime(clock_, absl::Milliseconds(20));
    compiled_.TakeTime(clock_, absl::Milliseconds(10));
  }

  absl::Status Measure(absl::Duration stretch) {
    return MeasurePairs(eager_, compiled_, context_, {}, clock_, stretch,
                        measured_);
  }

  FakeClock clock_;
  FakeExecutable eager_;
  FakeExecutable compiled_;
  FakeExecutionContext context_;
  ProfitMeasurement measured_;
};

TEST_F(MeasurePairsTest, MeasuresForAStretchAfterOneRunThatDoesNotCount) {
  // 30 ms of runs that don't count, then 30 ms a pair.
  ASSERT_TRUE(Measure(absl::Milliseconds(100)).ok());
  EXPECT_THAT(measured_.incumbent, SizeIs(3));
  EXPECT_THAT(measured_.incumbent, Each(DoubleNear(0.020, 1e-9)));
  EXPECT_THAT(measured_.candidate, Each(DoubleNear(0.010, 1e-9)));
  EXPECT_EQ(eager_.runs(), 4);
  ASSERT_TRUE(Measure(absl::Milliseconds(60)).ok());
  EXPECT_THAT(measured_.candidate, SizeIs(5));
  EXPECT_EQ(eager_.runs(), 6);
}

TEST_F(MeasurePairsTest, MeasuresOnePairHoweverShortTheStretch) {
  ASSERT_TRUE(Measure(absl::ZeroDuration()).ok());
  EXPECT_THAT(measured_.incumbent, SizeIs(1));
  EXPECT_THAT(measured_.candidate, SizeIs(1));
}

TEST_F(MeasurePairsTest, StopsWhereTheIntervalIsLookedAt) {
  ASSERT_TRUE(Measure(absl::Hours(1)).ok());
  EXPECT_THAT(measured_.candidate, SizeIs(11));
  ASSERT_TRUE(Measure(absl::Hours(1)).ok());
  EXPECT_THAT(measured_.candidate, SizeIs(13));
}

TEST_F(MeasurePairsTest, AFailingRunEndsTheMeasurement) {
  compiled_.FailNext(1, absl::ResourceExhaustedError("out of memory"));
  EXPECT_EQ(Measure(absl::Hours(1)),
            absl::ResourceExhaustedError("out of memory"));
}

ProfitMeasurement Pairs(size_t pairs, double incumbent, double candidate) {
  return {std::vector<double>(pairs, incumbent),
          std::vector<double>(pairs, candidate)};
}

TEST(IsEnoughTest, AClearDifferenceEndsIt) {
  EXPECT_FALSE(IsEnough(Pairs(0, 1, 1), absl::Hours(1), {}));
  EXPECT_FALSE(IsEnough(Pairs(10, 2, 1), absl::ZeroDuration(), {}));
  EXPECT_TRUE(IsEnough(Pairs(11, 2, 1), absl::ZeroDuration(), {}));
  EXPECT_TRUE(IsEnough(Pairs(11, 1, 2), absl::ZeroDuration(), {}));
  EXPECT_TRUE(IsEnough(Pairs(11, 1, 1), absl::ZeroDuration(), {}));
  // Between two looks.
  EXPECT_FALSE(IsEnough(Pairs(12, 2, 1), absl::ZeroDuration(), {}));
}

TEST(IsEnoughTest, SoDoTimeAndNumber) {
  ProfitMeasurement unclear = Pairs(200, 1, 1);
  for (size_t i = 0; i < 200; i += 2) unclear.candidate[i] = 1.5;
  const ProfitOptions options;
  EXPECT_FALSE(IsEnough(unclear, absl::ZeroDuration(), options));
  EXPECT_TRUE(IsEnough(unclear, options.budget, options));
  EXPECT_TRUE(IsEnough(unclear, absl::ZeroDuration(), {.most_pairs = 200}));
  EXPECT_FALSE(IsEnough(Pairs(1, 1, 1), options.budget, options));
  EXPECT_TRUE(IsEnough(Pairs(1, 1, 1), options.patience, options));
}

TEST(IsEnoughTest, SoDoAFewPairsThatAgreeWhereAsked) {
  const ProfitOptions options = {.promising_pairs = 5};
  const absl::Duration spent = options.budget / 4;
  EXPECT_FALSE(IsEnough(Pairs(4, 2, 1), spent, options));
  EXPECT_TRUE(IsEnough(Pairs(5, 2, 1), spent, options));
  EXPECT_FALSE(IsEnough(Pairs(5, 2, 1), absl::ZeroDuration(), options));
  EXPECT_FALSE(IsEnough(Pairs(5, 2, 1), spent, {}));
  EXPECT_FALSE(IsEnough(Pairs(5, 1.02, 1), spent, options));
  EXPECT_FALSE(IsEnough(Pairs(5, 1, 2), spent, options));
  ProfitMeasurement one_slower = Pairs(6, 2, 1);
  one_slower.candidate[2] = 3;
  EXPECT_FALSE(IsEnough(one_slower, spent, options));
  const Profit judged = JudgeProfit(Pairs(5, 2, 1), {}, options);
  EXPECT_TRUE(judged.worth);
  EXPECT_FALSE(judged.clear);
}

TEST(EstimateSpeedupTest, TheIntervalHoldsTheMedianAndNarrows) {
  std::mt19937 random(1);
  std::lognormal_distribution<double> noise(0, 0.2);
  ProfitMeasurement measured;
  double width = 0;
  for (const size_t pairs : {20, 100, 500}) {
    while (measured.pairs() < pairs) {
      measured.incumbent.push_back(noise(random));
      measured.candidate.push_back(noise(random));
    }
    const SpeedupInterval speedup = EstimateSpeedup(measured);
    EXPECT_LT(speedup.low, speedup.median);
    EXPECT_GT(speedup.high, speedup.median);
    if (width > 0) {
      EXPECT_LT(speedup.high - speedup.low, width);
    }
    width = speedup.high - speedup.low;
  }
}

TEST(EstimateSpeedupTest, FewPairsBoundNothing) {
  const SpeedupInterval speedup = EstimateSpeedup(Pairs(10, 2, 1));
  EXPECT_EQ(speedup.median, 2);
  EXPECT_EQ(speedup.low, 0);
  EXPECT_TRUE(std::isinf(speedup.high));
}

struct JudgeCase {
  const char* name;
  ProfitMeasurement measurement;
  ProfitSizes sizes;
  bool promote;
  bool clear;
  const char* reason;
};

class JudgeProfitTest : public ::testing::TestWithParam<JudgeCase> {};

TEST_P(JudgeProfitTest, Judges) {
  const JudgeCase& row = GetParam();
  const Profit profit = JudgeProfit(row.measurement, row.sizes, {});
  EXPECT_EQ(profit.worth, row.promote) << profit.reason;
  EXPECT_EQ(profit.clear, row.clear) << profit.reason;
  EXPECT_EQ(profit.reason, row.reason);
}

ProfitMeasurement WithOutlier(ProfitMeasurement measurement) {
  measurement.candidate[3] = 100;
  return measurement;
}

INSTANTIATE_TEST_SUITE_P(
    Table, JudgeProfitTest,
    ::testing::Values(
        JudgeCase{"Faster",
                  Pairs(11, 0.02, 0.01),
                  {},
                  true,
                  true,
                  "2.00 times as fast (10.000 ms against 20.000 ms, 2.00 to "
                  "2.00, 11 pairs)"},
        JudgeCase{"Slower",
                  Pairs(11, 0.01, 0.02),
                  {},
                  false,
                  true,
                  "0.50 times as fast (20.000 ms against 10.000 ms, 0.50 to "
                  "0.50, 11 pairs), slower than eager"},
        JudgeCase{"AsFastAndSmaller",
                  Pairs(11, 0.01, 0.01),
                  {2, 1},
                  true,
                  true,
                  "1.00 times as fast (10.000 ms against 10.000 ms, 1.00 to "
                  "1.00, 11 pairs), as fast as eager and smaller"},
        JudgeCase{"AsFastAndNotSmaller",
                  Pairs(11, 0.01, 0.01),
                  {1, 1},
                  false,
                  true,
                  "1.00 times as fast (10.000 ms against 10.000 ms, 1.00 to "
                  "1.00, 11 pairs), as fast as eager and not smaller"},
        JudgeCase{"AnOutlierChangesNothing",
                  WithOutlier(Pairs(40, 0.02, 0.01)),
                  {},
                  true,
                  true,
                  "2.00 times as fast (10.000 ms against 20.000 ms, 2.00 to "
                  "2.00, 40 pairs)"},
        JudgeCase{"FewPairsAreNotClear",
                  Pairs(2, 0.02, 0.01),
                  {},
                  true,
                  false,
                  "2.00 times as fast (10.000 ms against 20.000 ms, 2 pairs), "
                  "to be measured again"},
        JudgeCase{"FewPairsThatAreSlower",
                  Pairs(2, 0.01, 0.02),
                  {},
                  false,
                  false,
                  "0.50 times as fast (20.000 ms against 10.000 ms, 2 pairs), "
                  "to be measured again"},
        JudgeCase{"NotMeasured", {}, {}, false, true, "not measured"}),
    [](const auto& test) { return test.param.name; });

// Draws run times until it is enough, as a busy neighbour makes them: most are
// spread by a fifth, a third is held up for as long again or longer.
bool Promotes(double true_speedup, int seed) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::lognormal_distribution<double> spread(0, 0.1);
  std::exponential_distribution<double> held_up(1);
  std::bernoulli_distribution neighbour(0.33);
  const auto run = [&](double seconds) {
    const double plain = seconds * spread(random);
    return neighbour(random) ? plain * (1 + held_up(random)) : plain;
  };
  ProfitMeasurement measured;
  const ProfitOptions options;
  while (!IsEnough(measured, absl::ZeroDuration(), options)) {
    measured.incumbent.push_back(run(true_speedup * 1e-3));
    measured.candidate.push_back(run(1e-3));
  }
  return JudgeProfit(measured, {}, options).worth;
}

TEST(ProfitGateTest, IsRightAboutFivePerCentDespiteABusyNeighbour) {
  constexpr int kDecisions = 400;
  int right_gains = 0;
  int right_losses = 0;
  for (int seed = 0; seed < kDecisions; ++seed) {
    right_gains += Promotes(1.05, seed) ? 1 : 0;
    right_losses += Promotes(1 / 1.05, seed) ? 0 : 1;
  }
  EXPECT_GE(right_gains, kDecisions * 99 / 100);
  EXPECT_GE(right_losses, kDecisions * 99 / 100);
}

}  // namespace
}  // namespace stoker
