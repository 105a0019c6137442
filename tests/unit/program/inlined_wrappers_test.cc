// Graphs that are called by wrappers become part of the graph around them, as
// the compiler's reader makes them, and calls that don't fit are refused.
#include "program/inlined_wrappers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "nlohmann/json.hpp"

namespace stoker {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::SizeIs;

json Tensor(const std::string& name) {
  return {{"as_tensor", {{"name", name}}}};
}

json Tensors(const std::vector<std::string>& names) {
  json list = json::array();
  for (const std::string& name : names) list.push_back(Tensor(name));
  return list;
}

json Input(json argument) {
  return {{"name", ""}, {"kind", 1}, {"arg", std::move(argument)}};
}

json Node(const std::string& target, const std::vector<std::string>& inputs,
          const std::string& output) {
  json node = {{"target", target},
               {"inputs", json::array()},
               {"outputs", Tensors({output})},
               {"name", output},
               {"metadata", json::object()}};
  for (const std::string& input : inputs) {
    node["inputs"].push_back(Input(Tensor(input)));
  }
  return node;
}

json Graph(const std::vector<std::string>& inputs, std::vector<json> nodes,
           const std::vector<std::string>& outputs) {
  json values = json::object();
  for (const std::string& name : inputs) values[name] = {{"dtype", 7}};
  for (const json& node : nodes) {
    for (const json& output : node["outputs"]) {
      values[output["as_tensor"]["name"].get<std::string>()] = {{"dtype", 7}};
    }
  }
  return {{"inputs", Tensors(inputs)},
          {"outputs", Tensors(outputs)},
          {"nodes", std::move(nodes)},
          {"tensor_values", values},
          {"sym_int_values", json::object()}};
}

// with torch.no_grad(), of that graph.
json NoGrad(json graph, const std::vector<std::string>& operands,
            const std::vector<std::string>& outputs) {
  json inputs = {
      Input({{"as_bool", false}}),
      Input({{"as_graph", {{"name", "submod"}, {"graph", std::move(graph)}}}})};
  for (const std::string& operand : operands) {
    inputs.push_back(Input(Tensor(operand)));
  }
  return {{"target", "torch.ops.higher_order.wrap_with_set_grad_enabled"},
          {"inputs", inputs},
          {"outputs", Tensors(outputs)},
          {"name", "wrap"},
          {"metadata", json::object()}};
}

json Program(json graph) {
  json specs = json::array();
  for (const json& output : graph["outputs"]) {
    specs.push_back({{"user_output", {{"arg", output}}}});
  }
  return {{"graph_module",
           {{"graph", std::move(graph)},
            {"signature", {{"output_specs", specs}}}}}};
}

json& GraphOf(json& program) { return program["graph_module"]["graph"]; }

// x → sin → y.
json Sine() {
  return Graph({"x"}, {Node("torch.ops.aten.sin.default", {"x"}, "y")}, {"y"});
}

absl::StatusOr<bool> Inline(json& program) {
  return InlineWrappers(program, "model.pt2: model.json");
}

std::string Refusal(json program) {
  const absl::Status status = Inline(program).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("model.pt2: model.json: expected "));
  return std::string(status.message());
}

TEST(InlinedWrappersTest, MakesOfTorchsProgramsWhatTheCompilersReaderMakes) {
  std::ifstream file("tests/unit/program/testdata/wrappers.json");
  const json cases = json::parse(file);
  EXPECT_THAT(cases, SizeIs(12));
  for (const auto& [name, made] : cases.items()) {
    json program = made["program"];
    const absl::StatusOr<bool> inlined = Inline(program);
    ASSERT_TRUE(inlined.ok()) << name << ": " << inlined.status();
    EXPECT_TRUE(*inlined) << name;
    EXPECT_EQ(program, made["inlined"]) << name;
    // There is nothing left to do.
    EXPECT_EQ(Inline(program).value(), false) << name;
    EXPECT_EQ(program, made["inlined"]) << name;
  }
}

TEST(InlinedWrappersTest, LeavesAProgramWithoutAlone) {
  json program = Program(Sine());
  // A value may well be called like what is not one.
  GraphOf(program)["tensor_values"]["as_graph"] = {{"dtype", 7}};
  const json before = program;
  EXPECT_EQ(Inline(program).value(), false);
  EXPECT_EQ(program, before);
  for (const char* other : {"null", "[]", "{}", "{\"graph_module\": 3}",
                            "{\"graph_module\": {\"graph\": []}}"}) {
    json odd = json::parse(other);
    EXPECT_EQ(Inline(odd).value(), false) << other;
  }
}

TEST(InlinedWrappersTest, AResultMayBeAnOperandOrAppearTwice) {
  json inner = Sine();
  inner["outputs"] = Tensors({"x", "y", "y"});
  json program = Program(
      Graph({"a"},
            {NoGrad(inner, {"a"}, {"same", "first", "second"}),
             Node("torch.ops.aten.add.Tensor", {"same", "second"}, "sum")},
            {"sum", "first", "same"}));
  ASSERT_TRUE(Inline(program).ok());
  const json& graph = GraphOf(program);
  EXPECT_EQ(graph["nodes"],
            json({Node("torch.ops.aten.sin.default", {"a"}, "y"),
                  Node("torch.ops.aten.add.Tensor", {"a", "y"}, "sum")}));
  EXPECT_EQ(graph["outputs"], Tensors({"sum", "y", "a"}));
  EXPECT_EQ(program["graph_module"]["signature"]["output_specs"][2],
            json({{"user_output", {{"arg", Tensor("a")}}}}));
  EXPECT_THAT(graph["tensor_values"], SizeIs(3));  // a, y, sum
}

TEST(InlinedWrappersTest, WhatIsWrittenToIsRenamedToo) {
  json program = Program(Graph({"a"}, {NoGrad(Sine(), {"a"}, {"b"})}, {"b"}));
  program["graph_module"]["signature"]["output_specs"] = {
      {{"buffer_mutation", {{"arg", {{"name", "b"}}}, {"buffer_name", "b"}}}}};
  ASSERT_TRUE(Inline(program).ok());
  EXPECT_EQ(program["graph_module"]["signature"]["output_specs"][0],
            json({{"buffer_mutation",
                   {{"arg", {{"name", "y"}}}, {"buffer_name", "b"}}}}));
}

TEST(InlinedWrappersTest, NamesStayUnique) {
  // Around the wrapper there is a y already, a node called y_1, and a value
  // called y_2 that is in no table.
  json named = Node("torch.ops.aten.split.Tensor", {"a"}, "y_2");
  named["name"] = "y_1";
  json program = Program(
      Graph({"a", "y"},
            {named, NoGrad(Sine(), {"y"}, {"b"}), NoGrad(Sine(), {"b"}, {"c"})},
            {"c"}));
  GraphOf(program)["tensor_values"].erase("y_2");
  ASSERT_TRUE(Inline(program).ok());
  std::set<std::string> names;
  for (const json& node : GraphOf(program)["nodes"]) {
    EXPECT_TRUE(names.insert(node["name"].get<std::string>()).second);
    names.insert(node["outputs"][0]["as_tensor"]["name"].get<std::string>());
  }
  EXPECT_EQ(names, std::set<std::string>({"y_1", "y_2", "y_3", "y_4"}));
  EXPECT_EQ(GraphOf(program)["outputs"], Tensors({"y_4"}));
}

TEST(InlinedWrappersTest, BranchesInAWrapperKeepTheirNames) {
  json cond = Node("torch.ops.higher_order.cond", {"x"}, "y");
  for (const char* branch : {"true", "false"}) {
    cond["inputs"].push_back(
        Input({{"as_graph", {{"name", branch}, {"graph", Sine()}}}}));
  }
  cond["inputs"].push_back(Input({{"as_tensors", {{{"name", "x"}}}}}));
  json program = Program(Graph(
      {"a", "y"}, {NoGrad(Graph({"x"}, {cond}, {"y"}), {"a"}, {"b"})}, {"b"}));
  ASSERT_TRUE(Inline(program).ok());
  const json& node = GraphOf(program)["nodes"][0];
  EXPECT_EQ(node["inputs"][0], Input(Tensor("a")));
  EXPECT_EQ(node["inputs"][1]["arg"]["as_graph"]["graph"], Sine());
  EXPECT_EQ(node["inputs"][3], Input({{"as_tensors", {{{"name", "a"}}}}}));
  EXPECT_EQ(node["outputs"], Tensors({"y_1"}));
}

TEST(InlinedWrappersTest, NestingAndRepetitionGrowNothing) {
  json graph = Sine();
  for (int i = 0; i < 25; ++i) {
    graph = Graph({"x"},
                  {NoGrad(graph, {"x"}, {"y"}), NoGrad(Sine(), {"y"}, {"z"})},
                  {"z"});
  }
  json program = Program(graph);
  const size_t before = program.dump().size();
  ASSERT_TRUE(Inline(program).ok());
  EXPECT_THAT(GraphOf(program)["nodes"], SizeIs(26));
  EXPECT_LT(program.dump().size(), before);
}

TEST(InlinedWrappersTest, RefusesCallsThatDontFitTheirGraph) {
  const auto with = [](const json& graph,
                       const std::vector<std::string>& operands,
                       const std::vector<std::string>& outputs) {
    return Refusal(
        Program(Graph({"a", "b"}, {NoGrad(graph, operands, outputs)}, {"a"})));
  };
  EXPECT_THAT(with(Sine(), {}, {"c"}), HasSubstr("with 0 for 1"));
  EXPECT_THAT(with(Sine(), {"a", "b"}, {"c"}), HasSubstr("with 2 for 1"));
  EXPECT_THAT(with(Sine(), {"a"}, {}), HasSubstr("with 0 for 1"));
  EXPECT_THAT(with(Sine(), {"a"}, {"c", "d"}), HasSubstr("with 2 for 1"));
  json twice = Graph({"x", "x"}, {}, {"x"});
  EXPECT_THAT(with(twice, {"a", "b"}, {"c"}), HasSubstr("another operand 1"));
  json size = Sine();
  size["inputs"] = {{{"as_sym_int", {{"as_name", "x"}}}}};
  EXPECT_THAT(with(size, {"a"}, {"c"}), HasSubstr("another operand 0"));
  json other = Sine();
  other["outputs"] = {{{"as_sym_int", {{"as_name", "y"}}}}};
  EXPECT_THAT(with(other, {"a"}, {"c"}), HasSubstr("another result 0"));
  EXPECT_THAT(with(Graph({"x"}, {}, {"nobody"}), {"a"}, {"c"}),
              HasSubstr("another result 0"));
  json both = Sine();
  both["outputs"] = Tensors({"x", "y"});
  EXPECT_THAT(with(both, {"a"}, {"c", "c"}), HasSubstr("names of their own"));
  for (const char* part : {"inputs", "outputs", "nodes"}) {
    json half = Sine();
    half.erase(part);
    EXPECT_THAT(with(half, {"a"}, {"c"}), HasSubstr("a graph that")) << part;
  }
}

TEST(InlinedWrappersTest, RefusesGraphsThatAreNotClosed) {
  const auto with = [](const json& node) {
    return Refusal(Program(Graph(
        {"a"}, {NoGrad(Graph({"x"}, {node}, {"x"}), {"a"}, {"c"})}, {"c"})));
  };
  const char* wanted = "its own values only and make each once";
  // The graph around it has an a, which is none of its business.
  EXPECT_THAT(with(Node("torch.ops.aten.sin.default", {"a"}, "y")),
              HasSubstr(wanted));
  EXPECT_THAT(with(Node("torch.ops.aten.sin.default", {"x"}, "x")),
              HasSubstr(wanted));
  EXPECT_THAT(with({{"target", "t"}, {"outputs", json::array()}}),
              HasSubstr("nodes with inputs"));
}

TEST(InlinedWrappersTest, RefusesAWrapperWithoutAGraph) {
  json wrapper = NoGrad(Sine(), {"a"}, {"c"});
  wrapper["inputs"].erase(1);
  EXPECT_THAT(Refusal(Program(Graph({"a"}, {wrapper}, {"c"}))),
              HasSubstr("a graph that the operator calls"));
  wrapper.erase("inputs");
  EXPECT_THAT(Refusal(Program(Graph({"a"}, {wrapper}, {"c"}))),
              HasSubstr("with inputs and outputs"));
}

json Autocast(json graph, int dtype, bool is_on) {
  json node = NoGrad(std::move(graph), {"a"}, {"c"});
  node["target"] = "torch.ops.higher_order.wrap_with_autocast";
  json& inputs = node["inputs"];
  inputs[0]["arg"] = {{"as_string", "cpu"}};
  inputs.insert(inputs.begin() + 1,
                {Input({{"as_scalar_type", dtype}}),
                 Input({{"as_bool", is_on}}), Input({{"as_bool", true}})});
  return node;
}

TEST(InlinedWrappersTest, RefusesAutocastThatChangesWhatIsComputed) {
  constexpr int kHalf = 6, kFloat = 7, kBFloat16 = 13;
  const auto program = [](const json& node) {
    return Program(Graph({"a"}, {node}, {"c"}));
  };
  for (const auto& [dtype, is_on] :
       {std::pair(kHalf, false), {kBFloat16, false}, {kFloat, true}}) {
    json harmless = program(Autocast(Sine(), dtype, is_on));
    EXPECT_TRUE(Inline(harmless).ok()) << dtype << is_on;
  }
  json sine = Sine();
  sine["nodes"][0]["metadata"]["stack_trace"] =
      "  File \"/home/me/net.py\", line 12, in forward\n    y = x.sin()";
  for (const int dtype : {kHalf, kBFloat16}) {
    const std::string refusal = Refusal(program(Autocast(sine, dtype, true)));
    EXPECT_THAT(refusal, HasSubstr("compile: {precision: bfloat16}"));
    EXPECT_THAT(refusal,
                HasSubstr("got 'torch.ops.higher_order.wrap_with_autocast' at "
                          "net.py:12"));
  }
  // It would compute in float32 what the graph has in bfloat16.
  sine["tensor_values"]["y"]["dtype"] = kBFloat16;
  Refusal(program(Autocast(sine, kFloat, true)));
  // Inside of a wrapper, too.
  Refusal(Program(
      Graph({"a"},
            {NoGrad(Graph({"a"}, {Autocast(Sine(), kHalf, true)}, {"c"}), {"a"},
                    {"c"})},
            {"c"})));
}

}  // namespace
}  // namespace stoker
