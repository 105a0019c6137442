#include "tensor/dim_expr.h"

#include <gtest/gtest.h>

#include <limits>

namespace stoker {
namespace {

using Kind = DimExpr::Kind;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

DimExpr C(int64_t value) { return DimExpr::Constant(value); }

TEST(DimExprTest, LeavesEvaluateToThemselves) {
  EXPECT_EQ(C(-3).Evaluate({}), -3);
  EXPECT_EQ(DimExpr::Dimension(1).Evaluate({4, 9}), 9);
  EXPECT_EQ(DimExpr::Unknown().Evaluate({4}), std::nullopt);
}

TEST(DimExprTest, DimensionWithoutASizeIsUnknown) {
  EXPECT_EQ(DimExpr::Dimension(2).Evaluate({4, 9}), std::nullopt);
  EXPECT_EQ(DimExpr::Dimension(-1).Evaluate({4, 9}), std::nullopt);
}

TEST(DimExprTest, BinaryTable) {
  const struct {
    Kind kind;
    int64_t left, right;
    std::optional<int64_t> value;
  } cases[] = {
      {Kind::kAdd, 2, 3, 5},
      {Kind::kAdd, kMax, 1, std::nullopt},
      {Kind::kAdd, kMin, -1, std::nullopt},
      {Kind::kMul, 384, 32, 12288},
      {Kind::kMul, kMax, 2, std::nullopt},
      {Kind::kMul, kMin, -1, std::nullopt},
      {Kind::kFloorDiv, 7, 2, 3},
      {Kind::kFloorDiv, -7, 2, -4},
      {Kind::kFloorDiv, 7, -2, -4},
      {Kind::kFloorDiv, -7, -2, 3},
      {Kind::kFloorDiv, -8, 2, -4},
      {Kind::kFloorDiv, 7, 0, std::nullopt},
      {Kind::kFloorDiv, 7, -1, -7},
      {Kind::kFloorDiv, kMin, -1, std::nullopt},
      {Kind::kMod, 7, 3, 1},
      {Kind::kMod, -7, 3, 2},
      {Kind::kMod, 7, -3, -2},
      {Kind::kMod, -7, -3, -1},
      {Kind::kMod, 6, 3, 0},
      {Kind::kMod, 7, 0, std::nullopt},
      {Kind::kMod, kMin, -1, 0},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(DimExpr::Binary(c.kind, C(c.left), C(c.right)).Evaluate({}),
              c.value)
        << static_cast<int>(c.kind) << ": " << c.left << ", " << c.right;
  }
}

TEST(DimExprTest, UnknownInsideMakesTheWholeUnknown) {
  const DimExpr sum =
      DimExpr::Binary(Kind::kAdd, DimExpr::Dimension(0), DimExpr::Unknown());
  EXPECT_EQ(sum.Evaluate({1}), std::nullopt);
}

TEST(DimExprTest, NestedExpressionAndItsDimensions) {
  // (d0 + 1) // 2 * d2
  const DimExpr expr = DimExpr::Binary(
      Kind::kMul,
      DimExpr::Binary(Kind::kFloorDiv,
                      DimExpr::Binary(Kind::kAdd, DimExpr::Dimension(0), C(1)),
                      C(2)),
      DimExpr::Dimension(2));
  EXPECT_EQ(expr.Evaluate({6, 100, 5}), 15);
  EXPECT_TRUE(expr.DependsOn(0));
  EXPECT_FALSE(expr.DependsOn(1));
  EXPECT_TRUE(expr.DependsOn(2));
  EXPECT_FALSE(expr.is_constant());
  EXPECT_FALSE(expr.is_dimension());
}

}  // namespace
}  // namespace stoker
