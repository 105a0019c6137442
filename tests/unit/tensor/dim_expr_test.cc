#include "tensor/dim_expr.h"

#include <gtest/gtest.h>

#include <limits>
#include <utility>

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

TEST(DimExprTest, AffineTable) {
  const DimExpr d1 = DimExpr::Dimension(1);
  const auto add = [](DimExpr a, DimExpr b) {
    return DimExpr::Binary(Kind::kAdd, std::move(a), std::move(b));
  };
  const auto mul = [](DimExpr a, DimExpr b) {
    return DimExpr::Binary(Kind::kMul, std::move(a), std::move(b));
  };
  const struct {
    DimExpr expr;
    int64_t scale, offset;  // 0: none of this form
  } cases[] = {
      {d1, 1, 0},
      {mul(C(8), d1), 8, 0},
      {add(mul(d1, C(8)), C(1)), 8, 1},
      {mul(C(2), add(C(-3), mul(C(4), d1))), 8, -6},
      {add(d1, d1), 2, 0},
      {add(mul(C(-1), d1), mul(C(3), d1)), 2, 0},
      {C(5), 0, 0},
      {mul(C(-2), d1), 0, 0},
      {mul(C(0), d1), 0, 0},
      {mul(d1, d1), 0, 0},
      {add(d1, DimExpr::Dimension(0)), 0, 0},
      {DimExpr::Binary(Kind::kFloorDiv, d1, C(2)), 0, 0},
      {add(d1, DimExpr::Unknown()), 0, 0},
      {mul(C(kMax), mul(C(2), d1)), 0, 0},
  };
  for (const auto& c : cases) {
    const auto affine = c.expr.AsAffine();
    ASSERT_EQ(affine.has_value(), c.scale != 0) << c.scale;
    if (!affine) continue;
    EXPECT_EQ(affine->dimension, 1);
    EXPECT_EQ(affine->scale, c.scale);
    EXPECT_EQ(affine->offset, c.offset);
    for (int64_t size : {0, 1, 7}) {
      EXPECT_EQ(affine->Solve(*c.expr.Evaluate({100, size})), size);
    }
  }
}

TEST(DimExprTest, WhatNoSizeMakes) {
  const DimExpr::Affine affine = {.dimension = 0, .scale = 8, .offset = 1};
  EXPECT_EQ(affine.Solve(17), 2);
  EXPECT_EQ(affine.Solve(16), std::nullopt);
  EXPECT_EQ(affine.Solve(1), 0);
  EXPECT_EQ(affine.Solve(-7), std::nullopt);
  EXPECT_EQ(affine.Solve(kMin), std::nullopt);
}

}  // namespace
}  // namespace stoker
