// Which values an argument names, in each of the shapes that torch writes.
#include "program/graph_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// "kind name", or "kind = constant".
std::vector<std::string> ValuesOf(const std::string& argument) {
  json parsed = json::parse(argument);
  std::vector<std::string> values;
  ForEachValue(parsed, [&values](const GraphValue& value) {
    values.push_back(value.kind + (value.name != nullptr
                                       ? " " + *value.name
                                       : " = " + value.constant->dump()));
  });
  return values;
}

TEST(GraphValuesTest, AreFoundInEveryShape) {
  EXPECT_THAT(ValuesOf(R"({"as_tensor": {"name": "x"}})"),
              ElementsAre("as_tensor x"));
  EXPECT_THAT(ValuesOf(R"({"as_tensors": [{"name": "x"}, {"name": "y"}]})"),
              ElementsAre("as_tensor x", "as_tensor y"));
  EXPECT_THAT(
      ValuesOf(R"({"as_nested_tensors": [[{"name": "x"}], [{"name": "y"}]]})"),
      ElementsAre("as_tensor x", "as_tensor y"));
  EXPECT_THAT(
      ValuesOf(R"({"as_optional_tensor": {"as_tensor": {"name": "x"}}})"),
      ElementsAre("as_tensor x"));
  EXPECT_THAT(ValuesOf(R"({"as_optional_tensors":
                           [{"as_none": true}, {"as_tensor": {"name": "x"}}]})"),
              ElementsAre(R"(as_none = {"as_none":true})", "as_tensor x"));
  EXPECT_THAT(ValuesOf(R"({"as_sym_int": {"as_name": "n"}})"),
              ElementsAre("as_sym_int n"));
  EXPECT_THAT(ValuesOf(R"({"as_sym_ints": [{"as_int": 3}, {"as_name": "n"}]})"),
              ElementsAre(R"(as_sym_int = {"as_int":3})", "as_sym_int n"));
  EXPECT_THAT(ValuesOf(R"({"as_string_to_argument":
                           {"name": {"as_tensor": {"name": "x"}}}})"),
              ElementsAre("as_tensor x"));
  EXPECT_THAT(ValuesOf(R"({"as_int": 3})"),
              ElementsAre(R"(as_int = {"as_int":3})"));
}

TEST(GraphValuesTest, OthersValuesAreNotAmongThem) {
  EXPECT_THAT(ValuesOf(R"({"as_graph": {"name": "g", "graph":
                           {"inputs": [{"as_tensor": {"name": "x"}}]}}})"),
              IsEmpty());
  for (const char* odd :
       {"null", "3", "\"x\"", "[]", "{}", "{\"as_tensor\": {}}",
        "{\"as_tensor\": {\"name\": 3}}", "{\"as_tensors\": 3}"}) {
    EXPECT_THAT(ValuesOf(odd), IsEmpty()) << odd;
  }
}

TEST(GraphValuesTest, CanBeRenamedInPlace) {
  json inputs = json::parse(R"([{"name": "self", "arg":
    {"as_tensors": [{"name": "x"}]}}, {"arg": {"as_sym_int":
    {"as_name": "n"}}}, {"name": "x"}, 3])");
  ForEachInputValue(inputs,
                    [](const GraphValue& value) { *value.name += "_1"; });
  EXPECT_EQ(inputs, json::parse(R"([{"name": "self", "arg":
    {"as_tensors": [{"name": "x_1"}]}}, {"arg": {"as_sym_int":
    {"as_name": "n_1"}}}, {"name": "x"}, 3])"));
}

}  // namespace
}  // namespace stoker
