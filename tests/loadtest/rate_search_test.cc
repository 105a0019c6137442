#include "loadtest/generator/rate_search.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "loadtest/generator/random.h"

namespace stoker::loadtest {
namespace {

// A server that meets the SLO up to a rate.
struct FakeServer {
  double capacity = 100;
  double noise = 0;  // share by which the capacity varies from trial to trial
  Random random{1};
  std::map<double, int> trials;

  RateTrial Try(double rate) {
    ++trials[rate];
    const double now = capacity * (1 + noise * (2 * random.Unit() - 1));
    return {rate, rate <= now, rate <= now ? "" : "too slow", false};
  }
};

SearchOutcome Find(FakeServer& server, const RateSearch& search, double start) {
  return FindHighestRate(search, start,
                         [&](double rate) { return server.Try(rate); });
}

class StartTest : public testing::TestWithParam<double> {};

TEST_P(StartTest, FindsTheCapacityFromAnywhere) {
  FakeServer server;
  const RateSearch search{.min_rate = 1, .resolution = 0.02};
  const SearchOutcome outcome = Find(server, search, GetParam());
  ASSERT_TRUE(outcome.rate.has_value());
  EXPECT_LE(*outcome.rate, 100);
  EXPECT_GE(*outcome.rate, 100 / 1.0201);
  EXPECT_LE(outcome.trials.size(), 30);
}

INSTANTIATE_TEST_SUITE_P(Starts, StartTest,
                         testing::Values(1, 40, 99, 100, 101, 1000));

TEST(RateSearchTest, ConfirmsWhatItReturns) {
  FakeServer server;
  const SearchOutcome outcome =
      Find(server, {.min_rate = 1, .confirmations = 3}, 80);
  ASSERT_TRUE(outcome.rate.has_value());
  EXPECT_EQ(server.trials.at(*outcome.rate), 4);
}

TEST(RateSearchTest, GoesDownWhenConfirmingFails) {
  // Passes 120 once, and never again more than 80.
  int calls = 0;
  const auto once = [&](double rate) {
    const bool meets = rate <= (++calls == 1 ? 120 : 80);
    return RateTrial{rate, meets, meets ? "" : "too slow", false};
  };
  const SearchOutcome outcome = FindHighestRate(
      {.min_rate = 1, .resolution = 0.05, .confirmations = 2}, 120, once);
  ASSERT_TRUE(outcome.rate.has_value());
  EXPECT_LE(*outcome.rate, 80);
  EXPECT_GE(*outcome.rate, 80 / 1.1);
}

TEST(RateSearchTest, ANoisyServerGetsARateThatItMeetsAgain) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FakeServer server{.noise = 0.1, .random = Random(seed)};
    const SearchOutcome outcome = Find(
        server, {.min_rate = 1, .resolution = 0.05, .confirmations = 2}, 150);
    ASSERT_TRUE(outcome.rate.has_value()) << seed;
    EXPECT_GE(*outcome.rate, 70) << seed;
    EXPECT_LE(*outcome.rate, 110) << seed;
  }
}

TEST(RateSearchTest, FindsNoneBelowTheLowestRate) {
  FakeServer server{.capacity = 5};
  const SearchOutcome outcome = Find(server, {.min_rate = 10}, 80);
  EXPECT_FALSE(outcome.rate.has_value());
  EXPECT_EQ(server.trials.begin()->first, 10);
  EXPECT_FALSE(outcome.trials.empty());
}

TEST(RateSearchTest, StaysWithinTheHighestRate) {
  FakeServer server{.capacity = 1e6};
  const SearchOutcome outcome =
      Find(server, {.min_rate = 1, .max_rate = 500}, 300);
  EXPECT_EQ(outcome.rate, 500);
  EXPECT_EQ(server.trials.rbegin()->first, 500);
}

TEST(RateSearchTest, EndsEvenWhenNothingEverFails) {
  FakeServer server{.capacity = 1e300};
  const SearchOutcome outcome = Find(server, {.min_rate = 1}, 10);
  EXPECT_EQ(outcome.trials.size(), kMaxTrials);
}

TEST(RateSearchTest, SaysWhenTheClientSetTheLimit) {
  const auto limited = [](double rate) {
    return RateTrial{rate, rate <= 100, "", rate > 90};
  };
  EXPECT_TRUE(FindHighestRate({.min_rate = 1}, 80, limited).client_limited);
  FakeServer server;
  EXPECT_FALSE(Find(server, {.min_rate = 1}, 80).client_limited);
}

}  // namespace
}  // namespace stoker::loadtest
