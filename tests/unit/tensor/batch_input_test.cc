#include "tensor/batch_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace stoker {
namespace {

using Kind = BatchInput::Kind;
using testing::ElementsAre;

std::vector<int64_t> Made(Kind kind, std::vector<int64_t> elements,
                          size_t size) {
  std::vector<int64_t> made(size, -1);
  FillBatchInput(kind, elements, DataType::kInt64, static_cast<int64_t>(size),
                 reinterpret_cast<std::byte*>(made.data()));
  return made;
}

TEST(BatchInputTest, CountsOfEachRequest) {
  EXPECT_THAT(Made(Kind::kElementCount, {3, 0, 2}, 3), ElementsAre(3, 0, 2));
  EXPECT_THAT(Made(Kind::kAccumulatedElementCount, {3, 0, 2}, 3),
              ElementsAre(3, 3, 5));
  EXPECT_THAT(Made(Kind::kAccumulatedElementCountWithZero, {3, 0, 2}, 4),
              ElementsAre(0, 3, 3, 5));
  EXPECT_THAT(Made(Kind::kMaxElementCountAsShape, {3, 0, 2}, 3),
              ElementsAre(0, 0, 0));
}

// No index beyond what there is, and no count of elements that nobody has.
TEST(BatchInputTest, PaddingIsRequestsWithoutElements) {
  EXPECT_THAT(Made(Kind::kElementCount, {3, 2}, 4), ElementsAre(3, 2, 0, 0));
  EXPECT_THAT(Made(Kind::kAccumulatedElementCount, {3, 2}, 4),
              ElementsAre(3, 5, 5, 5));
  EXPECT_THAT(Made(Kind::kAccumulatedElementCountWithZero, {3, 2}, 5),
              ElementsAre(0, 3, 5, 5, 5));
}

TEST(BatchInputTest, InTheProgramsType) {
  std::vector<float> made(2, -1);
  FillBatchInput(Kind::kElementCount, {3, 2}, DataType::kFp32, 2,
                 reinterpret_cast<std::byte*>(made.data()));
  EXPECT_THAT(made, ElementsAre(3, 2));
}

TEST(BatchInputTest, TheirSizesFollowFromTheRequests) {
  std::vector<int64_t> sizes(2, 0);
  const DimExpr one_more = DimExpr::Binary(
      DimExpr::Kind::kAdd, DimExpr::Dimension(1), DimExpr::Constant(1));
  const BatchInput marks{Kind::kAccumulatedElementCountWithZero, 0};
  SetBatchInputSize(marks, one_more, 3, 9, absl::MakeSpan(sizes));
  EXPECT_THAT(sizes, ElementsAre(0, 3));
  SetBatchInputSize(marks, DimExpr::Dimension(0), 3, 9, absl::MakeSpan(sizes));
  EXPECT_THAT(sizes, ElementsAre(4, 3));
  SetBatchInputSize({Kind::kMaxElementCountAsShape, 0}, DimExpr::Dimension(0),
                    3, 9, absl::MakeSpan(sizes));
  EXPECT_THAT(sizes, ElementsAre(9, 3));
}

TEST(BatchInputTest, KindsHaveTritonsNames) {
  for (const Kind kind : kBatchInputKinds) {
    EXPECT_EQ(BatchInputKind(BatchInputKindName(kind)), kind);
  }
  EXPECT_FALSE(BatchInputKind("BATCH_ITEM_SHAPE").has_value());
}

}  // namespace
}  // namespace stoker
