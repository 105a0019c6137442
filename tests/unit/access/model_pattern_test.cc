#include "access/model_pattern.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker {
namespace {

bool Matches(const std::string& pattern, const std::string& model) {
  return ModelPattern(pattern).Matches(model);
}

TEST(ModelPatternTest, NamesStandForThemselves) {
  EXPECT_TRUE(Matches("minilm", "minilm"));
  EXPECT_FALSE(Matches("minilm", "minilm2"));
  EXPECT_FALSE(Matches("minilm", "minil"));
  EXPECT_FALSE(Matches("minilm", "Minilm"));
  EXPECT_FALSE(Matches("minilm", ""));
  // What other kinds of patterns have a meaning for.
  EXPECT_TRUE(Matches("a.b[c]", "a.b[c]"));
  EXPECT_FALSE(Matches("a.b", "axb"));
}

TEST(ModelPatternTest, AStarStandsForAnything) {
  EXPECT_TRUE(Matches("*", ""));
  EXPECT_TRUE(Matches("*", "minilm"));
  EXPECT_TRUE(Matches("team-a-*", "team-a-"));
  EXPECT_TRUE(Matches("team-a-*", "team-a-one"));
  EXPECT_FALSE(Matches("team-a-*", "team-b-one"));
  EXPECT_FALSE(Matches("team-a-*", "my-team-a-one"));
  EXPECT_TRUE(Matches("*-*-end", "a-b-c-end"));
  EXPECT_FALSE(Matches("*-*-end", "a-end"));
  EXPECT_TRUE(Matches("a*b*", "aXbYb"));
  EXPECT_FALSE(Matches("a*b", "aXbY"));
}

TEST(ModelPatternTest, AQuestionMarkStandsForOne) {
  EXPECT_TRUE(Matches("v?", "v1"));
  EXPECT_FALSE(Matches("v?", "v"));
  EXPECT_FALSE(Matches("v?", "v12"));
  EXPECT_TRUE(Matches("v?*", "v12"));
}

TEST(ModelPatternTest, OnlyStarsMatchAll) {
  EXPECT_TRUE(ModelPattern("*").matches_all());
  EXPECT_TRUE(ModelPattern("**").matches_all());
  EXPECT_FALSE(ModelPattern("").matches_all());
  EXPECT_FALSE(ModelPattern("a*").matches_all());
  EXPECT_FALSE(ModelPattern("?*").matches_all());
}

// Where each star tried all that the others might take, this would not end.
TEST(ModelPatternTest, ManyStarsTakeNoTime) {
  std::string pattern;
  for (int i = 0; i < 200; ++i) pattern += "*a";
  EXPECT_FALSE(Matches(pattern + "b", std::string(20'000, 'a')));
}

}  // namespace
}  // namespace stoker
