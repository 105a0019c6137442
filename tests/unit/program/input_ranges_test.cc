#include "program/input_ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace stoker {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

json Tensor(const std::string& name) {
  return {{"as_tensor", {{"name", name}}}};
}
json Int(int64_t value) { return {{"as_int", value}}; }

json Node(const std::string& op, const std::map<std::string, json>& arguments,
          const std::string& made = "made") {
  json inputs = json::array();
  for (const auto& [name, argument] : arguments) {
    inputs.push_back({{"name", name}, {"arg", argument}});
  }
  return {{"target", "torch.ops.aten." + op},
          {"inputs", inputs},
          {"outputs", {Tensor(made)}}};
}

// Of inputs x and y, and a table [30, 5, free].
std::map<std::string, IntegerRange> RangesOf(const std::vector<json>& nodes) {
  const json table = {
      {"sizes", {Int(30), Int(5), {{"as_expr", {{"expr_str", "s0"}}}}}}};
  return InputRanges(
      {{"graph_module",
        {{"graph", {{"nodes", nodes}, {"tensor_values", {{"table", table}}}}},
         {"signature",
          {{"input_specs",
            {{{"parameter", {{"arg", {{"name", "table"}}}}}},
             {{"user_input", {{"arg", Tensor("x")}}}},
             {{"user_input", {{"arg", Tensor("y")}}}}}}}}}}});
}

TEST(InputRangesTest, AnIndexIsOfTheTable) {
  EXPECT_THAT(RangesOf({Node("embedding.default", {{"weight", Tensor("table")},
                                                   {"indices", Tensor("x")}})}),
              ElementsAre(Pair("x", Pair(0, 29))));
  EXPECT_THAT(
      RangesOf({Node("embedding_bag.padding_idx",
                     {{"weight", Tensor("table")}, {"indices", Tensor("y")}})}),
      ElementsAre(Pair("y", Pair(0, 29))));
  EXPECT_THAT(RangesOf({Node("gather.default", {{"self", Tensor("table")},
                                                {"dim", Int(-2)},
                                                {"index", Tensor("x")}})}),
              ElementsAre(Pair("x", Pair(0, 4))));
  const json indices = {
      {"as_optional_tensors", {{{"as_none", true}}, Tensor("y")}}};
  EXPECT_THAT(RangesOf({Node("index.Tensor", {{"self", Tensor("table")},
                                              {"indices", indices}})}),
              ElementsAre(Pair("y", Pair(0, 4))));
  const json list = {{"as_tensors", {{{"name", "x"}}, {{"name", "y"}}}}};
  EXPECT_THAT(RangesOf({Node("index.Tensor",
                             {{"self", Tensor("table")}, {"indices", list}})}),
              ElementsAre(Pair("x", Pair(0, 29)), Pair("y", Pair(0, 4))));
  EXPECT_THAT(RangesOf({Node("one_hot.default", {{"self", Tensor("x")},
                                                 {"num_classes", Int(9)}})}),
              ElementsAre(Pair("x", Pair(0, 8))));
}

TEST(InputRangesTest, WhatDividesIsNotZero) {
  EXPECT_THAT(RangesOf({Node("floor_divide.default",
                             {{"self", Tensor("x")}, {"other", Tensor("y")}}),
                        Node("remainder.Tensor",
                             {{"self", Tensor("x")}, {"other", Tensor("y")}})}),
              ElementsAre(Pair("y", Pair(1, 7))));
}

TEST(InputRangesTest, FollowsValuesThatAreKept) {
  EXPECT_THAT(
      RangesOf({Node("unsqueeze.default", {{"a_self", Tensor("x")}}, "wide"),
                Node("to.dtype", {{"a_self", Tensor("wide")}}, "long"),
                Node("embedding.default", {{"weight", Tensor("table")},
                                           {"indices", Tensor("long")}})}),
      ElementsAre(Pair("x", Pair(0, 29))));
  EXPECT_THAT(
      RangesOf({Node("add.Tensor", {{"a_self", Tensor("x")}}, "sum"),
                Node("embedding.default", {{"weight", Tensor("table")},
                                           {"indices", Tensor("sum")}})}),
      IsEmpty());
}

TEST(InputRangesTest, SeveralUsesLeaveWhatAllOfThemTake) {
  const json by_row = Node("embedding.default", {{"weight", Tensor("table")},
                                                 {"indices", Tensor("x")}});
  const json by_column = Node(
      "index_select.default",
      {{"self", Tensor("table")}, {"dim", Int(1)}, {"index", Tensor("x")}});
  const json divides =
      Node("div.Tensor_mode", {{"self", Tensor("y")}, {"other", Tensor("x")}});
  EXPECT_THAT(RangesOf({by_row, by_column}),
              ElementsAre(Pair("x", Pair(0, 4))));
  EXPECT_THAT(RangesOf({by_row, divides}), ElementsAre(Pair("x", Pair(1, 7))));
  const json one =
      Node("one_hot.default", {{"self", Tensor("x")}, {"num_classes", Int(1)}});
  EXPECT_THAT(RangesOf({divides, one}), IsEmpty());
}

TEST(InputRangesTest, WhatIsNotOfTheFormSaysNothing) {
  // A size that is free, a dimension that there is not, no table.
  for (const int64_t dim : {2, 3, -4}) {
    EXPECT_THAT(
        RangesOf({Node("index_select.default", {{"self", Tensor("table")},
                                                {"dim", Int(dim)},
                                                {"index", Tensor("x")}})}),
        IsEmpty());
  }
  EXPECT_THAT(RangesOf({Node("embedding.default",
                             {{"weight", Int(3)}, {"indices", Tensor("x")}})}),
              IsEmpty());
  EXPECT_THAT(RangesOf({json(3), json::object(), {{"target", 7}}}), IsEmpty());
  for (const char* text : {"null", "[]", "{}", R"({"graph_module": []})"}) {
    EXPECT_THAT(InputRanges(json::parse(text)), IsEmpty());
  }
}

}  // namespace
}  // namespace stoker
