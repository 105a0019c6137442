// The list that server and compiler share, as it came into the server.
#include "program/known_operators.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace stoker {
namespace {

TEST(KnownOperatorsTest, IsSortedAndNamesEachOnce) {
  EXPECT_GT(kKnownOperators.size(), 600u);
  EXPECT_TRUE(std::is_sorted(kKnownOperators.begin(), kKnownOperators.end()));
  EXPECT_EQ(std::adjacent_find(kKnownOperators.begin(), kKnownOperators.end()),
            kKnownOperators.end());
}

TEST(KnownOperatorsTest, KnowsThoseThatWorkInPlace) {
  for (const char* name : {"add", "add_", "__and__", "_to_copy", "bincount",
                           "scaled_dot_product_attention", "masked_fill_"}) {
    EXPECT_TRUE(IsKnownOperator(name)) << name;
  }
  for (const char* name : {"", "_", "ad", "add__", "__and", "eager", "Add",
                           "segment_reduce", "linalg_eigvals"}) {
    EXPECT_FALSE(IsKnownOperator(name)) << name;
  }
}

}  // namespace
}  // namespace stoker
