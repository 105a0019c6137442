#include "program/dim_expr_parser.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

const std::map<std::string, int, std::less<>> kDimensions = {{"s0", 0},
                                                             {"s43", 1}};

std::optional<int64_t> At(std::string_view text) {
  return ParseDimExpr(text, kDimensions).Evaluate({7, 20});
}

constexpr char kS0[] = "Symbol('s0', positive=True, integer=True)";

TEST(ParseDimExprTest, Table) {
  const std::string s0 = kS0;
  const std::string s43 = "Symbol('s43', integer=True)";
  const struct {
    std::string text;
    std::optional<int64_t> value;
  } cases[] = {
      {s0, 7},
      {"Symbol('s43')", 20},
      {"Integer(384)", 384},
      {"Integer(-1)", -1},
      {"Mul(Integer(384), " + s0 + ")", 2688},
      {"Add(" + s0 + ", " + s43 + ", Integer(1))", 28},
      {"FloorDiv(Add(" + s43 + ", Integer(1)), Integer(2))", 10},
      {"CleanDiv(" + s43 + ", Integer(4))", 5},
      {"CeilDiv(" + s0 + ", Integer(2))", 4},
      {"CeilDiv(" + s43 + ", Integer(2))", 10},
      {"Mod(" + s43 + ", " + s0 + ")", 6},
      {"PythonMod(Mul(Integer(-1), " + s43 + "), " + s0 + ")", 1},
      {"ModularIndexing(" + s43 + ", Integer(2), Integer(3))", 1},
      {"Pow(" + s0 + ", Integer(2))", 49},
      {" Mul( " + s0 + " , Integer(2) ) ", 14},
  };
  for (const auto& c : cases) EXPECT_EQ(At(c.text), c.value) << c.text;
}

TEST(ParseDimExprTest, WhatIsNotUnderstoodIsUnknown) {
  const std::string s0 = kS0;
  const std::string cases[] = {
      "",
      "7",
      "Symbol('u0', integer=True)",  // data-dependent: no such dimension
      "Symbol('s0'",
      "Symbol('s0') trailing",
      "Symbol(s0)",
      "Symbol('s0', positive)",
      "Integer(1.5)",
      "Integer(99999999999999999999)",
      "Integer()",
      "Add()",
      "Add(" + s0 + ",)",
      "Max(" + s0 + ", Integer(1))",
      "Pow(" + s0 + ", Integer(-1))",
      "Pow(" + s0 + ", Integer(1000))",
      "Pow(Integer(2), " + s0 + ")",
      "FloorDiv(" + s0 + ")",
      "Mod(" + s0 + ", Integer(2), Integer(3))",
      "Rational(1, 2)",
      "Add(Integer(1), Symbol('u0'))",
  };
  for (const std::string& text : cases) {
    EXPECT_EQ(ParseDimExpr(text, kDimensions).kind(), DimExpr::Kind::kUnknown)
        << text;
  }
}

TEST(ParseDimExprTest, DepthAndSizeAreBounded) {
  std::string deep = "Integer(1)";
  for (int i = 0; i < 40; ++i) deep = "Add(Integer(1), " + deep + ")";
  EXPECT_EQ(At(deep), 41);
  for (int i = 0; i < 20; ++i) deep = "Add(Integer(1), " + deep + ")";
  EXPECT_EQ(At(deep), std::nullopt);

  std::string unclosed;
  for (int i = 0; i < 10000; ++i) unclosed += "Add(";
  EXPECT_EQ(At(unclosed), std::nullopt);

  std::string wide = "Add(Integer(1)";
  for (int i = 0; i < 100; ++i) wide += ", Integer(1)";
  EXPECT_EQ(At(wide + ")"), 101);
  for (int i = 0; i < 1000; ++i) wide += ", Integer(1)";
  EXPECT_EQ(At(wide + ")"), std::nullopt);

  // 8^10 products when written out.
  std::string powers = kS0;
  for (int i = 0; i < 10; ++i) powers = "Pow(" + powers + ", Integer(8))";
  EXPECT_EQ(At(powers), std::nullopt);
}

TEST(SymbolNameTest, OnlyALoneSymbolHasOne) {
  EXPECT_EQ(SymbolName(kS0), "s0");
  EXPECT_EQ(SymbolName("Symbol('s43')"), "s43");
  for (std::string_view text :
       {"", "Integer(1)", "Symbol('s0", "Symbol('s0'",
        "Mul(Integer(2), Symbol('s0'))", "Symbol('s0')Symbol('s1')"}) {
    EXPECT_EQ(SymbolName(text), "") << text;
  }
}

}  // namespace
}  // namespace stoker
