#include "tensor/reshape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace stoker {
namespace {

using testing::HasSubstr;
using testing::Optional;

TEST(ReshapeTest, TritonsRules) {
  const Reshape right[] = {
      {{1}, {}},
      {{}, {1, 1}},
      {{4, 4}, {16}},
      {{-1}, {-1, 1}},
      {{-1, 16}, {-1, 4, 4}},
      {{2, 4, -1, 6}, {8, -1, 1, 6}},  // the example of Triton's manual
      {{-1, 3, -1}, {-1, 3, 1, -1, 1}},
  };
  for (const Reshape& reshape : right) {
    EXPECT_EQ(reshape.Mistake("dims"), "") << ShapeString(reshape.shape);
  }
  const struct {
    Reshape reshape;
    const char* expected;
  } wrong[] = {
      {{{4, 4}, {15}}, "as many elements as dims [4,4]"},
      {{{2}, {}}, "as many elements as dims [2]"},
      {{{0}, {0}}, "dims of 1 or more, or -1"},
      {{{-2}, {-2}}, "dims of 1 or more"},
      {{{1}, {0}}, "sizes of 1 or more, or -1"},
      {{{-1}, {4}}, "as many -1 as dims [-1]"},
      {{{4}, {-1, -1}}, "as many -1 as dims [4]"},
      {{{2, 4, -1, 6}, {8, 6, -1}},
       "elements as dims [2,4,-1,6] before, between and behind its -1"},
      {{{1 << 30, 1 << 30, 1 << 30}, {1}}, "than memory can hold"},
      {{{1}, {1 << 30, 1 << 30, 1 << 30}}, "than memory can hold"},
  };
  for (const auto& c : wrong) {
    EXPECT_THAT(
        c.reshape.Mistake(absl::StrCat("dims ", ShapeString(c.reshape.dims))),
        HasSubstr(c.expected));
  }
}

TEST(ReshapeTest, BothWays) {
  const Reshape reshape = {{-1, 2, 4, -1, 6}, {-1, 8, -1, 1, 6}};
  EXPECT_THAT(reshape.ToProgram({5, 2, 4, 7, 6}),
              Optional(Shape{5, 8, 7, 1, 6}));
  EXPECT_THAT(reshape.ToClients({5, 8, 7, 1, 6}),
              Optional(Shape{5, 2, 4, 7, 6}));
  EXPECT_THAT(reshape.ToProgram({0, 2, 4, 0, 6}),
              Optional(Shape{0, 8, 0, 1, 6}));
  EXPECT_EQ(reshape.ToProgram({5, 2, 4, 7}), std::nullopt);
  EXPECT_EQ(reshape.ToProgram({5, 4, 2, 7, 6}), std::nullopt);
  EXPECT_EQ(reshape.ToClients({5, 9, 7, 1, 6}), std::nullopt);
  EXPECT_THAT((Reshape{{1}, {}}).ToProgram({1}), Optional(Shape{}));
  EXPECT_THAT((Reshape{{1}, {}}).ToClients({}), Optional(Shape{1}));
}

// A size that was translated isn't taken for a place that has none yet.
TEST(ReshapeTest, SizesThatLookLikeAPlace) {
  EXPECT_THAT((Reshape{{-1, -1}, {-1, -1}}).ToProgram({-1, 3}),
              Optional(Shape{-1, 3}));
}

}  // namespace
}  // namespace stoker
