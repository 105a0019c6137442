// Plans are right for cases that people can check, and as cheap as the best of
// all partitions that brute force finds.
#include "batching/batch_planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

namespace stoker {
namespace {

using ::testing::ElementsAre;

std::vector<ShapeBucket> Grid(std::vector<int64_t> rows,
                              std::vector<int64_t> tokens) {
  std::vector<ShapeBucket> buckets;
  for (const int64_t r : rows) {
    for (const int64_t t : tokens) buckets.push_back({{r, t}});
  }
  return buckets;
}

class OneLane : public ::testing::Test {
 protected:
  // Buckets of 1, 4 and 8 rows that cost this much.
  BatchPlan Plan(std::vector<double> costs, std::vector<int64_t> rows) {
    const Lanes lanes(Grid({1, 4, 8}, {16}), {true, true}, 0);
    BatchPlanner planner(lanes, /*max_rows=*/8);
    planner.SetCosts(costs);
    std::vector<Candidate> candidates;
    for (const int64_t r : rows) candidates.push_back({0, r});
    return planner.Plan(candidates, /*in_order=*/false);
  }
};

TEST_F(OneLane, FiveAreFourAndOneWhereTheLargeBucketIsDearer) {
  const BatchPlan plan = Plan({1, 3, 6}, {1, 1, 1, 1, 1});
  EXPECT_THAT(plan.tasks, ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(plan.bucket, 1);
  EXPECT_EQ(plan.rows, 4);
}

TEST_F(OneLane, FiveShareTheLargeBucketWhereThatIsCheaper) {
  const BatchPlan plan = Plan({1, 3, 3.5}, {1, 1, 1, 1, 1});
  EXPECT_EQ(plan.tasks.size(), 5u);
  EXPECT_EQ(plan.bucket, 2);
}

TEST_F(OneLane, OneByOneWhereBatchesSaveNothing) {
  const BatchPlan plan = Plan({1, 4.5, 9}, {1, 1, 1});
  EXPECT_THAT(plan.tasks, ElementsAre(0));
  EXPECT_EQ(plan.bucket, 0);
  EXPECT_FALSE(plan.gains_by_waiting);
}

TEST_F(OneLane, ALargerBucketIsUsedOnlyWhereItIsMuchCheaper) {
  EXPECT_EQ(Plan({1, 0.9, 0.9}, {1}).bucket, 0);
  EXPECT_EQ(Plan({1, 0.5, 0.9}, {1}).bucket, 1);
}

TEST_F(OneLane, OfEquallyCheapWaysTheFullestBatchComesFirst) {
  EXPECT_EQ(Plan({1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}).rows, 8);
}

TEST_F(OneLane, WaitingGainsWhereAFullerBatchIsCheaperPerRow) {
  EXPECT_TRUE(Plan({1, 2, 3}, {1, 1}).gains_by_waiting);
  EXPECT_FALSE(Plan({1, 2, 3}, {4, 4}).gains_by_waiting);
}

TEST_F(OneLane, RowsOfOneTaskStayTogether) {
  const BatchPlan plan = Plan({1, 2, 3}, {5, 4, 3});
  EXPECT_THAT(plan.tasks, ElementsAre(0, 2));
  EXPECT_EQ(plan.rows, 8);
}

TEST(BatchPlannerTest, ATaskWithoutALaneRunsAlone) {
  const Lanes lanes(Grid({8}, {16}), {true, true}, 0);
  BatchPlanner planner(lanes, 8);
  const std::vector<Candidate> candidates = {{-1, 3}, {0, 1}, {-1, 1}, {0, 1}};
  const BatchPlan plan = planner.Plan(candidates, false);
  EXPECT_THAT(plan.tasks, ElementsAre(0));
  EXPECT_EQ(plan.bucket, -1);
  // Those that share pass it by.
  const BatchPlan next =
      planner.Plan(absl::MakeSpan(candidates).subspan(1), false);
  EXPECT_THAT(next.tasks, ElementsAre(0, 2));
}

TEST(BatchPlannerTest, NobodyOvertakesInOrder) {
  const Lanes lanes(Grid({1, 8}, {16, 128}), {true, true}, 0);
  BatchPlanner planner(lanes, 8);
  planner.SetCosts({1, 20, 2, 100});  // 1x16, 1x128, 8x16, 8x128
  const int small = lanes.Find({1, 16}), large = lanes.Find({1, 128});
  const std::vector<Candidate> candidates = {
      {small, 1}, {small, 1}, {large, 1}, {small, 1}};
  EXPECT_THAT(planner.Plan(candidates, true).tasks, ElementsAre(0, 1));
  EXPECT_THAT(planner.Plan(candidates, false).tasks, ElementsAre(0, 1, 3));
}

TEST(BatchPlannerTest, TheFirstTaskIsInEveryPlan) {
  const Lanes lanes(Grid({1, 8}, {16, 128}), {true, true}, 0);
  BatchPlanner planner(lanes, 8);
  planner.SetCosts({1, 20, 2, 100});
  const int small = lanes.Find({1, 16}), large = lanes.Find({1, 128});
  std::vector<Candidate> candidates(12, {large, 1});
  candidates[0].lane = small;
  EXPECT_THAT(planner.Plan(candidates, false).tasks, ElementsAre(0));
}

// --- against brute force ---

struct Bench {
  std::vector<ShapeBucket> buckets;
  std::vector<double> costs;
  int64_t max_rows = 1;

  double Cheapest(int64_t rows, int64_t tokens) const {
    double best = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < buckets.size(); ++i) {
      if (buckets[i].sizes[0] >= rows && buckets[i].sizes[1] >= tokens) {
        best = std::min(best, costs[i]);
      }
    }
    return best;
  }

  // The least cost of all partitions of the tasks, whatever their order.
  double Best(const std::vector<DimensionSizes>& tasks) const {
    const size_t all = size_t{1} << tasks.size();
    std::vector<double> best(all, std::numeric_limits<double>::infinity());
    best[0] = 0;
    for (size_t set = 1; set < all; ++set) {
      for (size_t part = set; part != 0; part = (part - 1) & set) {
        int64_t rows = 0, tokens = 0, count = 0;
        for (size_t i = 0; i < tasks.size(); ++i) {
          if ((part >> i & 1) == 0) continue;
          rows += tasks[i][0];
          tokens = std::max(tokens, tasks[i][1]);
          ++count;
        }
        if (rows > max_rows && count > 1) continue;
        best[set] =
            std::min(best[set], best[set & ~part] + Cheapest(rows, tokens));
      }
    }
    return best[all - 1];
  }
};

TEST(BatchPlannerTest, IsAsGoodAsBruteForceForTasksOfOneRow) {
  std::mt19937 random(7);
  const auto draw = [&](int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random);
  };
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    Bench bench{Grid({1, 2, 4, 8}, {16, 32, 64}), {}, 8};
    // Costs that grow with rows and with tokens.
    for (const ShapeBucket& bucket : bench.buckets) {
      bench.costs.push_back(1 + draw(0, 100) / 100.0 +
                            static_cast<double>(bucket.sizes[0]) *
                                static_cast<double>(bucket.sizes[1]) / 24);
    }
    for (size_t a = 0; a < bench.costs.size(); ++a) {
      for (size_t b = 0; b < bench.costs.size(); ++b) {
        if (bench.buckets[a].sizes[0] <= bench.buckets[b].sizes[0] &&
            bench.buckets[a].sizes[1] <= bench.buckets[b].sizes[1]) {
          bench.costs[b] = std::max(bench.costs[b], bench.costs[a]);
        }
      }
    }
    const Lanes lanes(bench.buckets, {true, true}, 0);
    BatchPlanner planner(lanes, bench.max_rows);
    planner.SetCosts(bench.costs);
    std::vector<DimensionSizes> tasks;
    for (int i = draw(1, 9); i > 0; --i) tasks.push_back({1, draw(1, 64)});
    const double best = bench.Best(tasks);

    double spent = 0;
    while (!tasks.empty()) {
      std::vector<Candidate> candidates;
      for (const DimensionSizes& task : tasks) {
        candidates.push_back({lanes.Find(task), task[0]});
      }
      const BatchPlan plan = planner.Plan(candidates, false);
      ASSERT_EQ(plan.tasks[0], 0u);
      ASSERT_GE(plan.bucket, 0);
      const DimensionSizes& sizes =
          bench.buckets[static_cast<size_t>(plan.bucket)].sizes;
      int64_t rows = 0;
      for (auto it = plan.tasks.rbegin(); it != plan.tasks.rend(); ++it) {
        rows += tasks[*it][0];
        EXPECT_LE(tasks[*it][1], sizes[1]);
        tasks.erase(tasks.begin() + static_cast<std::ptrdiff_t>(*it));
      }
      EXPECT_LE(rows, sizes[0]);
      EXPECT_EQ(rows, plan.rows);
      spent += bench.costs[static_cast<size_t>(plan.bucket)];
    }
    EXPECT_LE(spent, best + 1e-9);
  }
}

}  // namespace
}  // namespace stoker
