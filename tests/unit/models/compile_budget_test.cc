#include "models/compile_budget.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stoker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CompileBudgetTest, TheFirstCompileIsAllowedWhateverItTakes) {
  EXPECT_EQ(CompileBudget(absl::Seconds(1)).Exceeded(), std::nullopt);
}

TEST(CompileBudgetTest, TheNextOneTakesAsLongAsTheLast) {
  CompileBudget budget(absl::Seconds(100));
  budget.Spend(absl::Seconds(50));
  EXPECT_EQ(budget.Exceeded(), std::nullopt);
  budget.Spend(absl::Seconds(20));
  EXPECT_EQ(budget.Exceeded(), std::nullopt);
  budget.Spend(absl::Seconds(16));
  ASSERT_NE(budget.Exceeded(), std::nullopt);
  EXPECT_THAT(*budget.Exceeded(),
              HasSubstr("86 of budget_seconds 100 are spent, and a compile "
                        "takes about 16"));
}

TEST(CompileBudgetTest, AFailureIsSpentButSaysNothingOfTheNext) {
  CompileBudget budget(absl::Seconds(100));
  budget.SpendInVain(absl::Seconds(90));
  EXPECT_EQ(budget.Exceeded(), std::nullopt);
  budget.SpendInVain(absl::Seconds(11));
  EXPECT_NE(budget.Exceeded(), std::nullopt);
}

TEST(CompileBudgetTest, WithoutALimitNothingExceedsIt) {
  CompileBudget budget(absl::InfiniteDuration());
  budget.Spend(absl::Hours(1000));
  EXPECT_EQ(budget.Exceeded(), std::nullopt);
}

TEST(NotPayingBackTest, SaysWhyByBucket) {
  const std::vector<double> requests = {
      10, 11, std::numeric_limits<double>::infinity()};
  EXPECT_THAT(NotPayingBack(requests, /*within=*/10, 3),
              ElementsAre("", HasSubstr("after 11 requests"),
                          HasSubstr("would never pay back")));
}

TEST(NotPayingBackTest, WhatIsNotKnownIsNotCompiled) {
  EXPECT_THAT(
      NotPayingBack(absl::FailedPreconditionError("no requests recorded"), 10,
                    2),
      ElementsAre(HasSubstr("pays_back_within is 10, and no requests recorded"),
                  HasSubstr("no requests recorded")));
}

}  // namespace
}  // namespace stoker
