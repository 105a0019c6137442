#include "batching/row_faults.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace stoker {
namespace {

Batch BatchOfRows(const std::vector<int64_t>& rows) {
  Batch batch;
  for (int64_t count : rows) {
    auto task = std::make_unique<InferTask>();
    task->rows = count;
    batch.rows += count;
    batch.tasks.push_back(std::move(task));
  }
  return batch;
}

std::vector<std::string> Messages(const TaskFaults& faults) {
  std::vector<std::string> messages;
  for (const absl::Status& status : faults.per_task) {
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    messages.emplace_back(status.message());
  }
  return messages;
}

using ::testing::ElementsAre;

TEST(AssignFaults, ARowBelongsToTheTaskThatBroughtIt) {
  const auto faults = AssignFaults(BatchOfRows({2, 1, 3}), true,
                                   {{2, "two"}, {5, "five"}, {4, "four"}});
  ASSERT_TRUE(faults.ok());
  EXPECT_THAT(Messages(*faults),
              ElementsAre("", "two", "five (row 2 of the request)"));
  EXPECT_EQ(faults->rows, 3u);
}

TEST(AssignFaults, ARowCountsOnceHoweverManyFaultsItHas) {
  const auto faults =
      AssignFaults(BatchOfRows({1, 1}), true, {{1, "a"}, {1, "b"}});
  ASSERT_TRUE(faults.ok());
  EXPECT_THAT(Messages(*faults), ElementsAre("", "a"));
  EXPECT_EQ(faults->rows, 1u);
}

TEST(AssignFaults, PaddingRowsDoNotCount) {
  const auto faults = AssignFaults(BatchOfRows({2, 1}), true, {{3, "padding"}});
  ASSERT_TRUE(faults.ok());
  EXPECT_THAT(Messages(*faults), ElementsAre("", ""));
  EXPECT_EQ(faults->rows, 0u);
}

TEST(AssignFaults, AFaultWithoutARowIsTheLoneTasksOwn) {
  const auto faults = AssignFaults(BatchOfRows({3}), true, {{-1, "bad"}});
  ASSERT_TRUE(faults.ok());
  EXPECT_THAT(Messages(*faults), ElementsAre("bad"));
  EXPECT_EQ(faults->rows, 1u);
}

TEST(AssignFaults, AFaultWithoutARowCantBeAssignedAmongSeveral) {
  const auto faults =
      AssignFaults(BatchOfRows({1, 1}), true, {{0, "mine"}, {-1, "whose"}});
  EXPECT_EQ(faults.status(), absl::InvalidArgumentError("whose"));
}

TEST(AssignFaults, WithoutABatchDimensionAllAreTheTasksOwn) {
  const auto faults = AssignFaults(BatchOfRows({1}), false, {{7, "seven"}});
  ASSERT_TRUE(faults.ok());
  EXPECT_THAT(Messages(*faults), ElementsAre("seven"));
}

}  // namespace
}  // namespace stoker
