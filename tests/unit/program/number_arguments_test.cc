#include "program/number_arguments.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace stoker {
namespace {

using nlohmann::json;

const json kX = {{"as_tensor", {{"name", "x"}}}};
const json kTwo = {{"as_int", 2}};
const json kHalf = {{"as_float", 0.5}};
const json kSize = {{"as_sym_int", {{"as_name", "s0"}}}};

json FloorDivide(const json& of, const json& by) {
  return {{"target", "torch.ops.aten.floor_divide.default"},
          {"inputs",
           {{{"name", "self"}, {"arg", of}, {"kind", 1}},
            {{"name", "other"}, {"arg", by}, {"kind", 1}}}},
          {"outputs", {{{"as_tensor", {{"name", "y"}}}}}},
          {"metadata", {{"stack_trace", "net.py"}}}};
}

// x of that dtype.
json Program(const json& node, int dtype = 7) {
  return {{"graph_module",
           {{"graph",
             {{"nodes", {node}},
              {"tensor_values", {{"x", {{"dtype", dtype}}}}}}}}}};
}

const json& Nodes(const json& program) {
  return program.at("/graph_module/graph/nodes"_json_pointer);
}

TEST(NumberArgumentsTest, ADivisionByANumberCallsItsOverload) {
  for (const json& number : {kTwo, kHalf, kSize}) {
    json program = Program(FloorDivide(kX, number));
    EXPECT_TRUE(UseNumberOverloads(program));
    json expected = FloorDivide(kX, number);
    expected["target"] = "torch.ops.aten.floor_divide.Scalar";
    EXPECT_EQ(Nodes(program), json::array({expected}));
  }
}

json Compare(const std::string& target, const json& a, const json& b) {
  return {{"target", target},
          {"inputs",
           {{{"name", "a"}, {"arg", a}, {"kind", 1}},
            {{"name", "b"}, {"arg", b}, {"kind", 1}}}},
          {"outputs", {{{"as_bool", {{"as_name", "c"}}}}}},
          {"metadata", json::object()}};
}

TEST(NumberArgumentsTest, FloatsAreComparedByOperatorsOfOurOwn) {
  const json found = {{"as_sym_float", {{"as_name", "zuf0"}}}};
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge", "mod"}) {
    const std::string builtin = std::string("_operator.") + name;
    for (const auto& [a, b] :
         {std::pair(found, kTwo), {kSize, found}, {kHalf, found}}) {
      json program = Program(Compare(builtin, a, b));
      EXPECT_TRUE(UseNumberOverloads(program));
      EXPECT_EQ(
          Nodes(program)[0],
          Compare(std::string("torch.ops.stoker.") + name + ".default", a, b));
    }
    json program = Program(Compare(builtin, kSize, kTwo));
    EXPECT_FALSE(UseNumberOverloads(program));
  }
  // nativert's own take any number.
  json program = Program(Compare("_operator.add", found, found));
  EXPECT_FALSE(UseNumberOverloads(program));
}

TEST(NumberArgumentsTest, ANumberIsDividedAsATensorOfIt) {
  json program = Program(FloorDivide(kTwo, kX));
  EXPECT_TRUE(UseNumberOverloads(program));
  ASSERT_EQ(Nodes(program).size(), 2u);
  const json made = Nodes(program)[0];
  EXPECT_EQ(made["target"], "torch.ops.aten.full_like.default");
  EXPECT_EQ(made["inputs"][0]["arg"], kX);
  EXPECT_EQ(made["inputs"][1]["arg"], kTwo);
  const std::string name = made["outputs"][0]["as_tensor"]["name"];
  EXPECT_EQ(Nodes(program)[1],
            FloorDivide({{"as_tensor", {{"name", name}}}}, kX));
  const json& values =
      program.at("/graph_module/graph/tensor_values"_json_pointer);
  EXPECT_EQ(values[name], values["x"]);
}

// 0.5 // x is float32 for integers x, and 2 // x an integer for booleans: a
// tensor like x is neither.
TEST(NumberArgumentsTest, ANumberOfAKindAboveTheTensorsIsLeft) {
  constexpr int kLong = 5, kBool = 12;
  for (auto [number, dtype] : {std::pair(kHalf, kLong), {kTwo, kBool}}) {
    json program = Program(FloorDivide(number, kX), dtype);
    const json before = program;
    EXPECT_FALSE(UseNumberOverloads(program));
    EXPECT_EQ(program, before);
  }
}

TEST(NumberArgumentsTest, GraphsInArgumentsAreRewrittenToo) {
  const json inner = Program(FloorDivide(kX, kTwo))["graph_module"]["graph"];
  json program = Program(
      {{"target", "torch.ops.higher_order.cond"},
       {"inputs",
        {{{"arg", {{"as_graph", {{"name", "true"}, {"graph", inner}}}}}}}}});
  EXPECT_TRUE(UseNumberOverloads(program));
  EXPECT_EQ(Nodes(program)[0]["inputs"][0]["arg"]["as_graph"]["graph"]["nodes"]
                          [0]["target"],
            "torch.ops.aten.floor_divide.Scalar");
}

TEST(NumberArgumentsTest, OtherNodesStayAsTheyAre) {
  for (const json& node :
       {FloorDivide(kX, kX), FloorDivide(kTwo, kTwo),
        json{{"target", "torch.ops.aten.floor_divide.default"}},
        json{{"target", 7}}, json("a node"), json()}) {
    json program = Program(node);
    const json before = program;
    EXPECT_FALSE(UseNumberOverloads(program));
    EXPECT_EQ(program, before);
  }
}

}  // namespace
}  // namespace stoker
